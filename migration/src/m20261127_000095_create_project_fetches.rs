//! Numbers of fetches of projects by day.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

const FETCHES: &str = "project_fetches";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create(
            manager,
            table(FETCHES)
                .col(big_integer("project_id"))
                .col(date("day"))
                .col(big_integer("count"))
                .foreign_key(&mut reference(
                    FETCHES,
                    "project_id",
                    "projects",
                    ForeignKeyAction::Cascade,
                )),
            [unique(FETCHES, &["project_id", "day"]), index(FETCHES, &["day"])],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &[FETCHES]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
