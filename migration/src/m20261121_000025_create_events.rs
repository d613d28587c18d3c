//! Events: the source of event lists and webhooks.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, one_of, reference, table};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create(
            manager,
            table("events")
                .col(big_integer_null("project_id"))
                .col(big_integer_null("author_id"))
                .col(text("action"))
                .col(text_null("target_type"))
                .col(big_integer_null("target_id"))
                .col(big_integer_null("target_iid"))
                .col(text_null("target_title"))
                .col(text_null("data"))
                .col(timestamp_with_time_zone("created_at"))
                .foreign_key(&mut reference(
                    "events",
                    "project_id",
                    "projects",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "events",
                    "author_id",
                    "users",
                    ForeignKeyAction::SetNull,
                ))
                .check(one_of(
                    "events",
                    "action",
                    &[
                        "approved",
                        "closed",
                        "commented",
                        "created",
                        "destroyed",
                        "expired",
                        "joined",
                        "left",
                        "merged",
                        "pushed",
                        "reopened",
                        "updated",
                    ],
                )),
            [
                index("events", &["project_id", "id"]),
                index("events", &["author_id", "id"]),
            ],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["events"]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
