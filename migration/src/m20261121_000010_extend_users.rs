//! Accounts of users at identity providers, failed sign-ins, and a mark for users that are being deleted.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let mark = Table::alter()
            .table("users")
            .add_column(timestamp_with_time_zone_null("deletion_started_at"))
            .to_owned();
        manager.alter_table(mark).await?;
        create(
            manager,
            table("user_identities")
                .col(big_integer("user_id"))
                .col(text("provider"))
                .col(text("extern_uid"))
                .foreign_key(&mut reference(
                    "user_identities",
                    "user_id",
                    "users",
                    ForeignKeyAction::Cascade,
                )),
            [
                unique("user_identities", &["provider", "extern_uid"]),
                unique("user_identities", &["user_id", "provider"]),
            ],
        )
        .await?;
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

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["user_identities", "sign_in_failures"]).await?;
        let mark = Table::alter()
            .table("users")
            .drop_column("deletion_started_at")
            .to_owned();
        manager.alter_table(mark).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
