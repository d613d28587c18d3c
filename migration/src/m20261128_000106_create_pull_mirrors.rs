//! Repositories from which projects fetch their branches and tags.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

const MIRRORS: &str = "pull_mirrors";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create(
            manager,
            table(MIRRORS)
                .col(big_integer("project_id"))
                .col(text("url"))
                .col(text_null("credentials_encrypted"))
                .col(text("update_status"))
                .col(integer("failures"))
                .col(timestamp_with_time_zone_null("next_update_at"))
                .col(timestamp_with_time_zone_null("last_update_at"))
                .col(timestamp_with_time_zone_null("last_update_started_at"))
                .col(timestamp_with_time_zone_null("last_successful_update_at"))
                .col(text_null("last_error"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .foreign_key(&mut reference(
                    MIRRORS,
                    "project_id",
                    "projects",
                    ForeignKeyAction::Cascade,
                )),
            [
                unique(MIRRORS, &["project_id"]),
                index(MIRRORS, &["next_update_at"]),
            ],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &[MIRRORS]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
