//! Indexes that lists of groups are read from, and that lists of users are counted in.

use sea_orm_migration::prelude::*;

use crate::naming::index;

#[derive(DeriveMigrationName)]
pub struct Migration;

/// The columns of both: of groups the order and what says who may see them, of users that they are there.
const GROUPS: [&str; 4] = ["kind", "name_key", "id", "visibility"];
const USERS: [&str; 1] = ["id"];

/// Covers a list, but for what is being removed.
fn covering(table: &'static str, columns: &[&'static str]) -> IndexCreateStatement {
    index(table, columns)
        .and_where(Expr::col("deletion_started_at").is_null())
        .to_owned()
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.create_index(covering("namespaces", &GROUPS)).await?;
        manager.create_index(covering("users", &USERS)).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (table, columns) in [("namespaces", &GROUPS[..]), ("users", &USERS[..])] {
            let name = format!("ix_{table}_{}", columns.join("_"));
            let drop = Index::drop().name(name).table(table).to_owned();
            manager.drop_index(drop).await?;
        }
        Ok(())
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
