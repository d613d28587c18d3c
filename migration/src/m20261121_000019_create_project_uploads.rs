//! Metadata of files uploaded to projects; their content is in the object storage.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create(
            manager,
            table("project_uploads")
                .col(big_integer("project_id"))
                .col(big_integer_null("uploader_id"))
                .col(text("secret"))
                .col(text("file_name"))
                .col(big_integer("size"))
                .col(timestamp_with_time_zone_null("stored_at"))
                .col(timestamp_with_time_zone("created_at"))
                .foreign_key(&mut reference(
                    "project_uploads",
                    "project_id",
                    "projects",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "project_uploads",
                    "uploader_id",
                    "users",
                    ForeignKeyAction::SetNull,
                )),
            [
                unique("project_uploads", &["secret"]),
                index("project_uploads", &["project_id", "id"]),
                index("project_uploads", &["uploader_id"]),
                index("project_uploads", &["stored_at", "created_at"]),
            ],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["project_uploads"]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
