//! Unique indexes of pending to-do items: one for each user and target, so that concurrent requests cannot
//! create two.

use sea_orm_migration::prelude::*;

use crate::naming::unique;

#[derive(DeriveMigrationName)]
pub struct Migration;

/// Targets of to-do items.
const THINGS: [&str; 3] = ["issue_id", "merge_request_id", "epic_id"];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for thing in THINGS {
            let pending = unique("todos", &["user_id", thing])
                .and_where(Expr::col("state").eq("pending"))
                .to_owned();
            manager.create_index(pending).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for thing in THINGS {
            let drop = Index::drop()
                .name(format!("uq_todos_user_id_{thing}"))
                .table("todos")
                .to_owned();
            manager.drop_index(drop).await?;
        }
        Ok(())
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
