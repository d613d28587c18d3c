//! Indexes that lists of projects are read from: in each order, with what says who may see a project. What comes before a
//! page is then passed by within the index.

use sea_orm_migration::prelude::*;

use crate::naming::index;

#[derive(DeriveMigrationName)]
pub struct Migration;

/// What lists are ordered by, and then by the id.
const ORDERS: [&str; 5] = ["created_at", "updated_at", "last_activity_at", "name", "path"];

/// Covers a list in one order, but for projects that are being removed.
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
        // There are three visibilities: what finds a third of all projects serves no list, but keeps from the above.
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

/// The index over these columns, to be dropped.
fn dropped(columns: &[&'static str]) -> IndexDropStatement {
    Index::drop()
        .name(format!("ix_projects_{}", columns.join("_")))
        .table("projects")
        .to_owned()
}
