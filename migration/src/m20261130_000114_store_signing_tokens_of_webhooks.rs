//! Signing tokens of webhooks.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub struct Migration;

const TABLE: &str = "project_hooks";
const COLUMN: &str = "signing_token_encrypted";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let column = Table::alter()
            .table(TABLE)
            .add_column(text_null(COLUMN))
            .to_owned();
        manager.alter_table(column).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let column = Table::alter().table(TABLE).drop_column(COLUMN).to_owned();
        manager.alter_table(column).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
