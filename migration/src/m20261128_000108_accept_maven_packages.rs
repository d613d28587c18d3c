//! Maven as a format of packages, and the SHA-512 of package files.

use sea_orm_migration::sea_orm::{DatabaseBackend, Statement};
use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub struct Migration;

const BEFORE: &str = "'generic', 'npm', 'pypi', 'cargo'";
const AFTER: &str = "'generic', 'npm', 'pypi', 'cargo', 'maven'";
/// Tables whose column `package_type` accepts only these formats.
const TABLES: [&str; 2] = ["packages", "package_protection_rules"];
const FILES: &str = "package_files";
const SHA512: &str = "sha512";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // Files that were stored before have no SHA-512. Only Maven packages, which did not exist, need it.
        let add = Table::alter()
            .table(FILES)
            .add_column(text_null(SHA512))
            .to_owned();
        manager.alter_table(add).await?;
        accept(manager, BEFORE, AFTER).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in TABLES {
            let rows = Query::delete()
                .from_table(table)
                .and_where(Expr::col("package_type").eq("maven"))
                .take();
            manager.get_connection().execute(&rows).await?;
        }
        accept(manager, AFTER, BEFORE).await?;
        let remove = Table::alter().table(FILES).drop_column(SHA512).to_owned();
        manager.alter_table(remove).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}

/// Replaces the accepted formats. SQLite cannot alter checks, and other tables refer to the tables, so the text of the checks is
/// replaced in the schema, as SQLite describes it for changes that do not concern the stored rows.
async fn accept(manager: &SchemaManager<'_>, before: &str, after: &str) -> Result<(), DbErr> {
    let db = manager.get_connection();
    if manager.get_database_backend() == DatabaseBackend::Postgres {
        for table in TABLES {
            let sql = format!(
                "ALTER TABLE {table} DROP CONSTRAINT ck_{table}_package_type, \
                 ADD CONSTRAINT ck_{table}_package_type CHECK (package_type IN ({after}))"
            );
            db.execute_unprepared(&sql).await?;
        }
        return Ok(());
    }
    db.execute_unprepared("PRAGMA writable_schema = ON").await?;
    let (quoted_before, quoted_after) = (before.replace('\'', "''"), after.replace('\'', "''"));
    let mut changed = 0;
    for table in TABLES {
        let sql = format!(
            "UPDATE sqlite_schema SET sql = replace(sql, '({quoted_before})', '({quoted_after})') \
             WHERE type = 'table' AND name = '{table}' AND instr(sql, '({quoted_before})') > 0"
        );
        changed += db.execute_unprepared(&sql).await?.rows_affected();
    }
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
    match changed == TABLES.len() as u64 {
        true => Ok(()),
        false => Err(DbErr::Migration(
            "the tables of packages do not have the expected checks of formats".to_owned(),
        )),
    }
}
