//! Reviewers of merge requests.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

const TABLE: &str = "merge_request_reviewers";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create(
            manager,
            table(TABLE)
                .col(big_integer("merge_request_id"))
                .col(big_integer("user_id"))
                .foreign_key(&mut reference(
                    TABLE,
                    "merge_request_id",
                    "merge_requests",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    TABLE,
                    "user_id",
                    "users",
                    ForeignKeyAction::Cascade,
                )),
            [
                unique(TABLE, &["merge_request_id", "user_id"]),
                index(TABLE, &["user_id", "merge_request_id"]),
            ],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &[TABLE]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
