//! Covering indexes for lists of groups, and for counting users.

use sea_orm_migration::prelude::*;

use crate::naming::index;

#[derive(DeriveMigrationName)]
pub struct Migration;

/// Columns of both: the order and visibility of groups; the existence of users.
const GROUPS: [&str; 4] = ["kind", "name_key", "id", "visibility"];
const USERS: [&str; 1] = ["id"];

/// Returns an index that covers a list, without rows that are being deleted.
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
