//! Write-ahead log of ref updates.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, one_of, reference, table};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create(
            manager,
            table("ref_updates")
                .col(big_integer("project_id"))
                .col(big_integer_null("user_id"))
                .col(text("kind"))
                .col(text("changes"))
                .col(text("state").default("pending"))
                .col(timestamp_with_time_zone("created_at"))
                .foreign_key(&mut reference(
                    "ref_updates",
                    "project_id",
                    "projects",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "ref_updates",
                    "user_id",
                    "users",
                    ForeignKeyAction::SetNull,
                ))
                .check(one_of("ref_updates", "kind", &["push", "api"]))
                .check(one_of("ref_updates", "state", &["pending", "applied"])),
            [
                index("ref_updates", &["project_id", "id"]),
                index("ref_updates", &["state", "created_at"]),
                index("ref_updates", &["user_id"]),
            ],
        )
        .await?;
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["ref_updates"]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
