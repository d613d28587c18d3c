//! Rate-limited actions of users within the counted period.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, reference, table};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create(
            manager,
            table("spent_actions")
                .col(big_integer("user_id"))
                .col(text("action"))
                .col(timestamp_with_time_zone("done_at"))
                .foreign_key(&mut reference(
                    "spent_actions",
                    "user_id",
                    "users",
                    ForeignKeyAction::Cascade,
                )),
            [
                index("spent_actions", &["user_id", "action", "done_at"]),
                index("spent_actions", &["done_at"]),
            ],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["spent_actions"]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
