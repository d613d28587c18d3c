//! Cleanup policies of packages, which delete older files with the same name.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, one_of, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

const POLICIES: &str = "package_cleanup_policies";
const KEPT: &[&str] = &["all", "1", "10", "20", "30", "40", "50"];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create(
            manager,
            table(POLICIES)
                .col(big_integer("project_id"))
                .col(text("kept_files"))
                .col(timestamp_with_time_zone_null("next_run_at"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .foreign_key(&mut reference(
                    POLICIES,
                    "project_id",
                    "projects",
                    ForeignKeyAction::Cascade,
                ))
                .check(one_of(POLICIES, "kept_files", KEPT)),
            [
                unique(POLICIES, &["project_id"]),
                index(POLICIES, &["next_run_at"]),
            ],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &[POLICIES]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
