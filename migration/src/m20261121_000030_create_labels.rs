//! Labels of projects and groups, and label priorities of projects.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, exactly_one, index, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create(
            manager,
            table("labels")
                .col(big_integer_null("project_id"))
                .col(big_integer_null("namespace_id"))
                .col(text("title"))
                .col(text("title_key"))
                .col(text("color"))
                .col(text_null("description"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .foreign_key(&mut reference(
                    "labels",
                    "project_id",
                    "projects",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "labels",
                    "namespace_id",
                    "namespaces",
                    ForeignKeyAction::Cascade,
                ))
                .check(exactly_one("labels", &["project_id", "namespace_id"])),
            [
                unique("labels", &["project_id", "title"]),
                unique("labels", &["namespace_id", "title"]),
                index("labels", &["title"]),
            ],
        )
        .await?;
        create(
            manager,
            table("label_priorities")
                .col(big_integer("project_id"))
                .col(big_integer("label_id"))
                .col(integer("priority"))
                .foreign_key(&mut reference(
                    "label_priorities",
                    "project_id",
                    "projects",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "label_priorities",
                    "label_id",
                    "labels",
                    ForeignKeyAction::Cascade,
                )),
            [
                unique("label_priorities", &["project_id", "label_id"]),
                index("label_priorities", &["label_id"]),
            ],
        )
        .await?;

        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["labels", "label_priorities"]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
