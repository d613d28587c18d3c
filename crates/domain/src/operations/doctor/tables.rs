//! Check of the tables of the database.

use sea_orm::{ConnectionTrait, DatabaseBackend, DbErr, QueryResult, Statement};

use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::operations::check::Check;

/// Maximum number of reported problems of each kind.
const MAX_PROBLEMS: usize = 20;

/// Checks all tables: SQLite checks its file and the references between rows. PostgreSQL enforces references itself,
/// and reads all rows.
///
/// # Errors
/// Returns an error if the list of tables cannot be read. Errors of a table become problems.
pub(super) async fn check_tables(backend: &Backend, mut check: Check) -> Result<Check> {
    match backend.database.backend() {
        DatabaseBackend::Sqlite => {
            let tables = query(backend, "SELECT name FROM sqlite_master WHERE type = 'table'").await?;
            check.checked = tables.len() as u64;
            check_sqlite(backend, &mut check.problems).await;
        }
        _ => {
            let tables = "SELECT relname::text, quote_ident(relname) FROM pg_class WHERE relkind = 'r' \
                          AND relnamespace = current_schema()::regnamespace ORDER BY relname";
            for table in query(backend, tables).await? {
                check.checked += 1;
                let (name, quoted): (String, String) =
                    (table.try_get_by_index(0)?, table.try_get_by_index(1)?);
                // Counting the rows alone could read only an index.
                let read = format!("SELECT count(whole_row) FROM {quoted} AS whole_row");
                if let Err(error) = query(backend, &read).await {
                    check.problems.push(format!("table {name}: {error}"));
                }
            }
        }
    }
    Ok(check)
}

async fn check_sqlite(backend: &Backend, problems: &mut Vec<String>) {
    let integrity = format!("PRAGMA integrity_check({MAX_PROBLEMS})");
    match query(backend, &integrity).await {
        Err(error) => {
            problems.push(format!("database: {error}"));
            return;
        }
        Ok(rows) => {
            let lines = rows.iter().map(|row| text(row, 0)).filter(|line| line != "ok");
            problems.extend(lines.map(|line| format!("database: {line}")));
        }
    }
    match query(backend, "PRAGMA foreign_key_check").await {
        Err(error) => problems.push(format!("database: {error}")),
        Ok(rows) => problems.extend(rows.iter().take(MAX_PROBLEMS).map(|row| {
            let (table, parent) = (text(row, 0), text(row, 2));
            format!("table {table}: a row refers to a missing row of {parent}")
        })),
    }
}

fn text(row: &QueryResult, index: usize) -> String {
    row.try_get_by_index(index).unwrap_or_default()
}

async fn query(backend: &Backend, sql: &str) -> Result<Vec<QueryResult>, DbErr> {
    let statement = Statement::from_string(backend.database.backend(), sql);
    backend.database.read().query_all_raw(statement).await
}
