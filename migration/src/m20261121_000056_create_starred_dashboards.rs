//! Dashboards of metrics that users starred (specification 2.15).

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let refers =
            |column, target| reference("starred_dashboards", column, target, ForeignKeyAction::Cascade);
        create(
            manager,
            table("starred_dashboards")
                .col(big_integer("user_id"))
                .col(big_integer("project_id"))
                .col(text("dashboard_path"))
                .col(timestamp_with_time_zone("created_at"))
                .foreign_key(&mut refers("user_id", "users"))
                .foreign_key(&mut refers("project_id", "projects")),
            [
                unique("starred_dashboards", &["user_id", "project_id", "dashboard_path"]),
                index("starred_dashboards", &["project_id"]),
            ],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["starred_dashboards"]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
