//! Failed sign-ins with account and address in separate columns, so that failures of an account can be counted
//! for each address. The rows of the former table are dropped: they count for ten minutes only.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, table};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["sign_in_failures"]).await?;
        create(
            manager,
            table("sign_in_failures")
                .col(text("account"))
                .col(text_null("address"))
                .col(text("context"))
                .col(timestamp_with_time_zone("failed_at")),
            [
                index("sign_in_failures", &["account", "failed_at"]),
                index("sign_in_failures", &["address", "context", "failed_at"]),
                index("sign_in_failures", &["failed_at"]),
            ],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["sign_in_failures"]).await?;
        create(
            manager,
            table("sign_in_failures")
                .col(text("source"))
                .col(timestamp_with_time_zone("failed_at")),
            [
                index("sign_in_failures", &["source", "failed_at"]),
                index("sign_in_failures", &["failed_at"]),
            ],
        )
        .await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
