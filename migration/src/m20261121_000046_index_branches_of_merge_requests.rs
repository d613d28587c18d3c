//! Indexes to find merge requests by branch in any project; the existing ones start with the project.

use sea_orm_migration::prelude::*;

use crate::naming::index;

#[derive(DeriveMigrationName)]
pub struct Migration;

const TABLE: &str = "merge_requests";
const COLUMNS: [&str; 2] = ["source_branch", "target_branch"];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for column in COLUMNS {
            manager.create_index(index(TABLE, &[column])).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for column in COLUMNS {
            let name = format!("ix_{TABLE}_{column}");
            let drop = Index::drop().name(name).table(TABLE).to_owned();
            manager.drop_index(drop).await?;
        }
        Ok(())
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
