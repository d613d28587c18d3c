//! Projects and groups whose jobs can use a project with their job tokens.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, exactly_one, index, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

const ENTRIES: &str = "job_token_allowlist_entries";

/// Setting of projects.
const LIMITED: &str = "job_token_scope_enabled";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let column = boolean(LIMITED).default(true).to_owned();
        let add = Table::alter().table("projects").add_column(column).to_owned();
        manager.alter_table(add).await?;
        let owner = |column, target| reference(ENTRIES, column, target, ForeignKeyAction::Cascade);
        create(
            manager,
            table(ENTRIES)
                .col(big_integer("project_id"))
                .col(big_integer_null("allowed_project_id"))
                .col(big_integer_null("allowed_namespace_id"))
                .col(timestamp_with_time_zone("created_at"))
                .foreign_key(&mut owner("project_id", "projects"))
                .foreign_key(&mut owner("allowed_project_id", "projects"))
                .foreign_key(&mut owner("allowed_namespace_id", "namespaces"))
                .check(exactly_one(
                    ENTRIES,
                    &["allowed_project_id", "allowed_namespace_id"],
                )),
            [
                unique(ENTRIES, &["project_id", "allowed_project_id"]),
                unique(ENTRIES, &["project_id", "allowed_namespace_id"]),
                index(ENTRIES, &["allowed_project_id"]),
                index(ENTRIES, &["allowed_namespace_id"]),
            ],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &[ENTRIES]).await?;
        let remove = Table::alter().table("projects").drop_column(LIMITED).to_owned();
        manager.alter_table(remove).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
