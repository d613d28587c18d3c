//! OpenPGP keys of users, and the key IDs by which signatures name them.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

const KEYS: &str = "gpg_keys";
const IDS: &str = "gpg_key_ids";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create(
            manager,
            table(KEYS)
                .col(big_integer("user_id"))
                .col(text("key"))
                .col(text("fingerprint"))
                .col(timestamp_with_time_zone("created_at"))
                .foreign_key(&mut reference(
                    KEYS,
                    "user_id",
                    "users",
                    ForeignKeyAction::Cascade,
                )),
            [index(KEYS, &["user_id", "id"]), unique(KEYS, &["fingerprint"])],
        )
        .await?;
        create(
            manager,
            table(IDS)
                .col(big_integer("gpg_key_id"))
                .col(text("key_id"))
                .foreign_key(&mut reference(IDS, "gpg_key_id", KEYS, ForeignKeyAction::Cascade)),
            [unique(IDS, &["gpg_key_id", "key_id"]), index(IDS, &["key_id"])],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &[KEYS, IDS]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
