//! The messages of the commits that an automatic merge creates.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub struct Migration;

const COLUMNS: [&str; 2] = ["merge_commit_message", "squash_commit_message"];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for column in COLUMNS {
            let message = Table::alter()
                .table("merge_requests")
                .add_column(text_null(column))
                .to_owned();
            manager.alter_table(message).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for column in COLUMNS {
            let message = Table::alter()
                .table("merge_requests")
                .drop_column(column)
                .to_owned();
            manager.alter_table(message).await?;
        }
        Ok(())
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
