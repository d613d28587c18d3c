//! The instance that a database belongs to.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, table};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create(
            manager,
            table("instances")
                .col(text("instance_id"))
                .col(text("repository_store_id"))
                .col(text("key_fingerprint"))
                .col(timestamp_with_time_zone("created_at"))
                .check(Check::named("ck_instances_one_row", Expr::col("id").eq(1))),
            [],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["instances"]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
