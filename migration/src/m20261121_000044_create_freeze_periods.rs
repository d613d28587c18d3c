//! Freeze periods of projects.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, reference, table};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create(
            manager,
            table("freeze_periods")
                .col(big_integer("project_id"))
                .col(text("freeze_start"))
                .col(text("freeze_end"))
                .col(text("cron_timezone"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .foreign_key(&mut reference(
                    "freeze_periods",
                    "project_id",
                    "projects",
                    ForeignKeyAction::Cascade,
                )),
            [index("freeze_periods", &["project_id", "id"])],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["freeze_periods"]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
