//! Custom headers of webhooks, and the headers of the last request of each delivery.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub struct Migration;

const COLUMNS: [(&str, &str); 3] = [
    ("project_hooks", "custom_header_keys"),
    ("project_hooks", "custom_headers_encrypted"),
    ("hook_deliveries", "request_headers"),
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (table, column) in COLUMNS {
            let column = Table::alter()
                .table(table)
                .add_column(text_null(column))
                .to_owned();
            manager.alter_table(column).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (table, column) in COLUMNS.into_iter().rev() {
            let column = Table::alter().table(table).drop_column(column).to_owned();
            manager.alter_table(column).await?;
        }
        Ok(())
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
