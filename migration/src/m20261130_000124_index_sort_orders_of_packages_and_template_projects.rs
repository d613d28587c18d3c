//! Indexes for each sort order of packages, and of groups by their template project. On PostgreSQL, texts are sorted by
//! code points, for which the indexes of pipelines and deployments by ref have no order.

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::DatabaseBackend;

#[derive(DeriveMigrationName)]
pub struct Migration;

/// A table with the columns of an index.
type TableIndex = (&'static str, &'static [&'static str]);

const INDEXES: [TableIndex; 5] = [
    ("namespaces", &["file_template_project_id"]),
    ("packages", &["project_id", "status", "created_at", "id"]),
    ("packages", &["project_id", "status", "name_key", "id"]),
    ("packages", &["project_id", "status", "version", "id"]),
    ("packages", &["project_id", "status", "package_type", "id"]),
];
/// The indexes that only PostgreSQL needs.
const INDEXES_BY_CODE_POINTS: [TableIndex; 2] = [
    ("pipelines", &["project_id", "ref_name", "id"]),
    ("deployments", &["project_id", "ref_name", "id"]),
];
/// Columns that are sorted by code points.
const BY_CODE_POINTS: [&str; 3] = ["name_key", "version", "ref_name"];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (name, (table, columns)) in indexes(manager) {
            let columns: Vec<String> = columns.iter().map(|column| sorted(manager, column)).collect();
            let create = format!("CREATE INDEX {name} ON {table} ({})", columns.join(", "));
            manager.get_connection().execute_unprepared(&create).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (name, (table, _)) in indexes(manager) {
            manager
                .drop_index(Index::drop().name(name).table(table).to_owned())
                .await?;
        }
        Ok(())
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}

/// Returns the indexes of the database with their names.
fn indexes(manager: &SchemaManager<'_>) -> Vec<(String, TableIndex)> {
    let named = |suffix: &str, (table, columns): TableIndex| {
        let name = format!("ix_{table}_{}{suffix}", columns.join("_"));
        (name, (table, columns))
    };
    let mut indexes: Vec<_> = INDEXES.map(|index| named("", index)).into();
    if manager.get_database_backend() == DatabaseBackend::Postgres {
        // Another index has the name without the suffix.
        indexes.extend(INDEXES_BY_CODE_POINTS.map(|index| named("_by_code_points", index)));
    }
    indexes
}

/// Returns a column of an index with its order. SQLite compares bytes, which is the order of code points.
fn sorted(manager: &SchemaManager<'_>, column: &str) -> String {
    let is_collated = manager.get_database_backend() == DatabaseBackend::Postgres;
    match is_collated && BY_CODE_POINTS.contains(&column) {
        true => format!("{column} COLLATE \"C\""),
        false => column.to_owned(),
    }
}
