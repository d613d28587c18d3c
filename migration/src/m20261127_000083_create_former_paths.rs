//! Paths that projects and namespaces had before they were renamed or transferred.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, exactly_one, index, reference, table};

#[derive(DeriveMigrationName)]
pub struct Migration;

const TABLE: &str = "former_paths";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create(
            manager,
            table(TABLE)
                .col(big_integer_null("parent_id"))
                .col(text("path_key"))
                .col(big_integer_null("project_id"))
                .col(big_integer_null("namespace_id"))
                .col(timestamp_with_time_zone("created_at"))
                .foreign_key(&mut reference(
                    TABLE,
                    "parent_id",
                    "namespaces",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    TABLE,
                    "project_id",
                    "projects",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    TABLE,
                    "namespace_id",
                    "namespaces",
                    ForeignKeyAction::Cascade,
                ))
                .check(exactly_one(TABLE, &["project_id", "namespace_id"])),
            [
                // Not unique: a unique index does not compare rows without a parent.
                index(TABLE, &["parent_id", "path_key"]),
                index(TABLE, &["project_id"]),
                index(TABLE, &["namespace_id"]),
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
