//! Attempts to build the payloads of webhooks and external status checks.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub struct Migration;

const TABLES: [&str; 2] = ["hook_deliveries", "status_check_deliveries"];
const COLUMN: &str = "payload_attempts";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in TABLES {
            let column = integer(COLUMN).default(0).to_owned();
            let add = Table::alter().table(table).add_column(column).to_owned();
            manager.alter_table(add).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in TABLES {
            let remove = Table::alter().table(table).drop_column(COLUMN).to_owned();
            manager.alter_table(remove).await?;
        }
        Ok(())
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
