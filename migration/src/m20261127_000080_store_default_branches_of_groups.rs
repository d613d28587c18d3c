//! The default branch of new projects of a group.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub struct Migration;

const COLUMN: &str = "default_branch";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let column = Table::alter()
            .table("namespaces")
            .add_column(text_null(COLUMN))
            .to_owned();
        manager.alter_table(column).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let column = Table::alter().table("namespaces").drop_column(COLUMN).to_owned();
        manager.alter_table(column).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
