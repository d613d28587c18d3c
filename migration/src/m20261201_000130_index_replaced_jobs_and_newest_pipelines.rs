//! Indexes of the jobs of a pipeline that no newer job replaced, and of the pipelines of each branch or tag.

use sea_orm_migration::prelude::*;

use crate::naming::index;

#[derive(DeriveMigrationName)]
pub struct Migration;

/// Tables with the columns of their new index. A condition of the index would not be recognized with a parameter, so
/// `retried` is a column.
const INDEXES: [(&str, &[&str]); 2] = [
    ("ci_jobs", &["pipeline_id", "retried", "id"]),
    ("pipelines", &["project_id", "tag", "ref_name", "id"]),
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (table, columns) in INDEXES {
            manager.create_index(index(table, columns)).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (table, columns) in INDEXES {
            let name = format!("ix_{table}_{}", columns.join("_"));
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
