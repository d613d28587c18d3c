//! When projects squash the commits of merge requests.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub struct Migration;

const COLUMN: &str = "squash_option";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let column = Table::alter()
            .table("projects")
            .add_column(text(COLUMN).default("default_off"))
            .to_owned();
        manager.alter_table(column).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let column = Table::alter().table("projects").drop_column(COLUMN).to_owned();
        manager.alter_table(column).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
