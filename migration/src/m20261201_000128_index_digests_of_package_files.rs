//! Index of package files by SHA-256, for downloads of Python packages.

use sea_orm_migration::prelude::*;

use crate::naming::index;

#[derive(DeriveMigrationName)]
pub struct Migration;

const TABLE: &str = "package_files";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.create_index(index(TABLE, &["sha256"])).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let name = format!("ix_{TABLE}_sha256");
        manager
            .drop_index(Index::drop().name(name).table(TABLE).to_owned())
            .await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
