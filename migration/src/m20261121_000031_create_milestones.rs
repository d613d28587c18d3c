//! Milestones of projects and groups, and IID counters.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, exactly_one, index, one_of, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create(
            manager,
            table("iid_counters")
                .col(big_integer_null("project_id"))
                .col(big_integer_null("namespace_id"))
                .col(text("subject"))
                .col(big_integer("last"))
                .foreign_key(&mut reference(
                    "iid_counters",
                    "project_id",
                    "projects",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "iid_counters",
                    "namespace_id",
                    "namespaces",
                    ForeignKeyAction::Cascade,
                ))
                .check(exactly_one("iid_counters", &["project_id", "namespace_id"]))
                .check(one_of(
                    "iid_counters",
                    "subject",
                    &["issues", "merge_requests", "milestones", "epics"],
                )),
            [
                unique("iid_counters", &["project_id", "subject"]),
                unique("iid_counters", &["namespace_id", "subject"]),
            ],
        )
        .await?;
        create(
            manager,
            table("milestones")
                .col(big_integer_null("project_id"))
                .col(big_integer_null("namespace_id"))
                .col(big_integer("iid"))
                .col(text("title"))
                .col(text("title_key"))
                .col(text_null("description"))
                .col(text_null("description_key"))
                .col(text("state"))
                .col(date_null("start_date"))
                .col(date_null("due_date"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .foreign_key(&mut reference(
                    "milestones",
                    "project_id",
                    "projects",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "milestones",
                    "namespace_id",
                    "namespaces",
                    ForeignKeyAction::Cascade,
                ))
                .check(exactly_one("milestones", &["project_id", "namespace_id"]))
                .check(one_of("milestones", "state", &["active", "closed"])),
            [
                unique("milestones", &["project_id", "iid"]),
                unique("milestones", &["namespace_id", "iid"]),
                unique("milestones", &["project_id", "title"]),
                unique("milestones", &["namespace_id", "title"]),
                index("milestones", &["title"]),
            ],
        )
        .await?;

        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["iid_counters", "milestones"]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
