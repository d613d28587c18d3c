//! Covering indexes for lists of projects: one for each order, with the columns that determine visibility. Rows
//! before a page are then skipped within the index.

use sea_orm_migration::prelude::*;

use crate::naming::index;

#[derive(DeriveMigrationName)]
pub struct Migration;

/// Orders of lists; the ID breaks ties.
const ORDERS: [&str; 5] = ["created_at", "updated_at", "last_activity_at", "name", "path"];

/// Returns an index that covers a list in one order, without projects that are being deleted.
fn covering(columns: &[&'static str]) -> IndexCreateStatement {
    let columns = [columns, &["id", "visibility", "namespace_id"]].concat();
    index("projects", &columns)
        .and_where(Expr::col("deletion_started_at").is_null())
        .to_owned()
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for order in ORDERS {
            manager.drop_index(dropped(&[order, "id"])).await?;
            manager.create_index(covering(&[order])).await?;
        }
        // With only three visibilities, an index that selects a third of all projects helps no list, but may
        // be chosen instead of those above.
        manager.drop_index(dropped(&["visibility", "id"])).await?;
        manager.create_index(covering(&[])).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let covering = |order: &[&'static str]| [order, &["id", "visibility", "namespace_id"]].concat();
        for order in ORDERS {
            manager.drop_index(dropped(&covering(&[order]))).await?;
            manager.create_index(index("projects", &[order, "id"])).await?;
        }
        manager.drop_index(dropped(&covering(&[]))).await?;
        manager
            .create_index(index("projects", &["visibility", "id"]))
            .await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}

/// Drops the index on these columns.
fn dropped(columns: &[&'static str]) -> IndexDropStatement {
    Index::drop()
        .name(format!("ix_projects_{}", columns.join("_")))
        .table("projects")
        .to_owned()
}
