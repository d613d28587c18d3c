//! Crates of Cargo as a format of packages.

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::{DatabaseBackend, Statement};

#[derive(DeriveMigrationName)]
pub struct Migration;

const BEFORE: &str = "'generic', 'npm', 'pypi'";
const AFTER: &str = "'generic', 'npm', 'pypi', 'cargo'";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        accept(manager, BEFORE, AFTER).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let crates = Query::delete()
            .from_table("packages")
            .and_where(Expr::col("package_type").eq("cargo"))
            .take();
        manager.get_connection().execute(&crates).await?;
        accept(manager, AFTER, BEFORE).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}

/// Replaces the accepted formats. SQLite cannot alter checks, and other tables refer to the table, so the text of the check is
/// replaced in the schema, as SQLite describes it for changes that do not concern the stored rows.
async fn accept(manager: &SchemaManager<'_>, before: &str, after: &str) -> Result<(), DbErr> {
    let db = manager.get_connection();
    if manager.get_database_backend() == DatabaseBackend::Postgres {
        let sql = format!(
            "ALTER TABLE packages DROP CONSTRAINT ck_packages_package_type, \
             ADD CONSTRAINT ck_packages_package_type CHECK (package_type IN ({after}))"
        );
        db.execute_unprepared(&sql).await?;
        return Ok(());
    }
    db.execute_unprepared("PRAGMA writable_schema = ON").await?;
    let (quoted_before, quoted_after) = (before.replace('\'', "''"), after.replace('\'', "''"));
    let sql = format!(
        "UPDATE sqlite_schema SET sql = replace(sql, '({quoted_before})', '({quoted_after})') \
         WHERE type = 'table' AND name = 'packages' AND instr(sql, '({quoted_before})') > 0"
    );
    let changed = db.execute_unprepared(&sql).await?.rows_affected();
    // Other connections load the schema again if its version changes, and this one does so now.
    let version = Statement::from_string(DatabaseBackend::Sqlite, "PRAGMA schema_version");
    let version = db.query_one_raw(version).await?;
    let version: i64 = match version {
        Some(row) => row.try_get("", "schema_version")?,
        None => 0,
    };
    db.execute_unprepared(&format!("PRAGMA schema_version = {}", version + 1))
        .await?;
    db.execute_unprepared("PRAGMA writable_schema = RESET").await?;
    match changed {
        1 => Ok(()),
        _ => Err(DbErr::Migration(
            "the table packages does not have the expected check of formats".to_owned(),
        )),
    }
}
