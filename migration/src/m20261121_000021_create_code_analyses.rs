//! Languages and license of a project's default branch, by the analyzed commit.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create(
            manager,
            table("code_analyses")
                .col(big_integer("project_id"))
                .col(text("commit_id"))
                .col(integer("revision"))
                .col(text_null("license_key"))
                .col(text_null("license_path"))
                .col(timestamp_with_time_zone("created_at"))
                .foreign_key(&mut reference(
                    "code_analyses",
                    "project_id",
                    "projects",
                    ForeignKeyAction::Cascade,
                )),
            [unique("code_analyses", &["project_id"])],
        )
        .await?;
        create(
            manager,
            table("project_languages")
                .col(big_integer("project_id"))
                .col(text("name"))
                .col(text("name_key"))
                .col(big_integer("size"))
                .foreign_key(&mut reference(
                    "project_languages",
                    "project_id",
                    "projects",
                    ForeignKeyAction::Cascade,
                )),
            [
                unique("project_languages", &["project_id", "name_key"]),
                index("project_languages", &["name_key", "project_id"]),
            ],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["code_analyses", "project_languages"]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
