//! URL variables, templates, names, descriptions and strategies of branch filters of webhooks.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::one_of;

#[derive(DeriveMigrationName)]
pub struct Migration;

const TABLE: &str = "project_hooks";
const STRATEGY: &str = "branch_filter_strategy";
const STRATEGIES: &[&str] = &["wildcard", "regex", "all_branches"];
const COLUMNS: [&str; 5] = [
    "name",
    "description",
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
        let column = text(STRATEGY)
            .default("wildcard")
            .check(one_of(TABLE, STRATEGY, STRATEGIES))
            .to_owned();
        let column = Table::alter().table(TABLE).add_column(column).to_owned();
        manager.alter_table(column).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for column in COLUMNS.into_iter().chain([STRATEGY]) {
            let column = Table::alter().table(TABLE).drop_column(column).to_owned();
            manager.alter_table(column).await?;
        }
        Ok(())
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
