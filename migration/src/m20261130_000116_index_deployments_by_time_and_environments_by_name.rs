//! Indexes of deployments by the time at which they finished, and of environments by name, for lists of merge requests.

use sea_orm_migration::prelude::*;

use crate::naming::index;

#[derive(DeriveMigrationName)]
pub struct Migration;

/// Tables with the column of their new index.
const INDEXES: [(&str, &str); 2] = [("deployments", "finished_at"), ("environments", "name")];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (table, column) in INDEXES {
            manager.create_index(index(table, &[column])).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (table, column) in INDEXES {
            let name = format!("ix_{table}_{column}");
            manager
                .drop_index(Index::drop().name(name).table(table).to_owned())
                .await?;
        }
        Ok(())
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
