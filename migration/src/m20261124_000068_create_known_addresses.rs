//! Addresses from which users signed in with their password.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create(
            manager,
            table("known_addresses")
                .col(big_integer("user_id"))
                .col(text("digest"))
                .col(timestamp_with_time_zone("used_at"))
                .foreign_key(&mut reference(
                    "known_addresses",
                    "user_id",
                    "users",
                    ForeignKeyAction::Cascade,
                )),
            [
                unique("known_addresses", &["user_id", "digest"]),
                index("known_addresses", &["used_at"]),
            ],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["known_addresses"]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
