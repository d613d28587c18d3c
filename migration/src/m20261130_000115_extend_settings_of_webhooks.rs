//! URL variables and templates of webhooks.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub struct Migration;

const TABLE: &str = "project_hooks";
const COLUMNS: [&str; 3] = [
    "url_variable_keys",
    "url_variables_encrypted",
    "custom_webhook_template",
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for column in COLUMNS {
            let column = Table::alter()
                .table(TABLE)
                .add_column(text_null(column))
                .to_owned();
            manager.alter_table(column).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for column in COLUMNS.into_iter().rev() {
            let column = Table::alter().table(TABLE).drop_column(column).to_owned();
            manager.alter_table(column).await?;
        }
        Ok(())
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
