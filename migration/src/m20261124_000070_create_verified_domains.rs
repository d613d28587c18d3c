//! Email domains that administrators verified for groups.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let name = "verified_domains";
        create(
            manager,
            table(name)
                .col(big_integer("namespace_id"))
                .col(text("domain"))
                .col(timestamp_with_time_zone("created_at"))
                .foreign_key(&mut reference(
                    name,
                    "namespace_id",
                    "namespaces",
                    ForeignKeyAction::Cascade,
                )),
            [unique(name, &["namespace_id", "domain"])],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["verified_domains"]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
