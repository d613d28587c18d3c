//! Marks of databases that must not be used: an unfinished copy, and the original of a copy in use.
//!
//! A mark is a table, so that it can be added to a database without a schema, and disappears with the database.

use chrono::{DateTime, Utc};
use sea_orm::{ConnectionTrait, DatabaseBackend, DbErr, Statement};

use crate::database::Database;
use crate::entities::now;

/// Table of an unfinished copy, with one row.
pub(super) const UNFINISHED: &str = "database_copy";
/// Table with the tables that an unfinished copy already has.
pub(super) const COPIED_TABLES: &str = "database_copy_tables";
/// Table of the original of a copy in use, with one row.
pub(super) const MOVED: &str = "database_moved";

/// Records that a table is copied.
pub(super) const RECORD: &str =
    "INSERT INTO database_copy_tables (name, row_count, checksum) VALUES ($1, $2, $3)";

/// A mark of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mark {
    /// The database is an unfinished copy of this instance.
    Unfinished {
        /// ID of the instance.
        instance_id: String,
    },
    /// The instance uses a copy of this database.
    Moved {
        /// The kind of the database with the copy.
        to: String,
        /// When the copy was completed.
        at: DateTime<Utc>,
    },
}

/// Returns the mark of a database.
///
/// # Errors
/// Returns the error of the database.
pub async fn get(database: &Database) -> Result<Option<Mark>, DbErr> {
    if database.has_table(UNFINISHED).await? {
        let statement = Statement::from_string(
            database.backend(),
            format!("SELECT instance_id FROM {UNFINISHED}"),
        );
        let row = database.read().query_one_raw(statement).await?;
        // A mark without a row belongs to no instance that could continue the copy.
        let instance_id = row.map_or_else(|| Ok(String::new()), |row| row.try_get_by_index(0))?;
        return Ok(Some(Mark::Unfinished { instance_id }));
    }
    if database.has_table(MOVED).await? {
        let statement = Statement::from_string(
            database.backend(),
            format!("SELECT moved_to, moved_at FROM {MOVED}"),
        );
        let Some(row) = database.read().query_one_raw(statement).await? else {
            return Err(DbErr::Custom(format!("the table {MOVED} is empty")));
        };
        let (to, at) = (row.try_get_by_index(0)?, row.try_get_by_index(1)?);
        return Ok(Some(Mark::Moved { to, at }));
    }
    Ok(None)
}

/// Marks an empty database as the unfinished copy of an instance.
///
/// # Errors
/// Returns the error of the database.
pub async fn begin(database: &Database, instance_id: &str) -> Result<(), DbErr> {
    database
        .transaction(async |transaction| {
            let create = format!("CREATE TABLE {UNFINISHED} (instance_id text NOT NULL)");
            transaction.execute_unprepared(&create).await?;
            let create = format!(
                "CREATE TABLE {COPIED_TABLES} (name text PRIMARY KEY, row_count bigint NOT NULL, checksum text NOT NULL)"
            );
            transaction.execute_unprepared(&create).await?;
            let sql = format!("INSERT INTO {UNFINISHED} (instance_id) VALUES ($1)");
            let insert = Statement::from_sql_and_values(database.backend(), sql, [instance_id.into()]);
            transaction.execute_raw(insert).await?;
            Ok(())
        })
        .await
}

/// Forgets which tables an unfinished copy has, so that all tables are copied again.
///
/// # Errors
/// Returns the error of the database.
pub async fn forget_copied_tables(database: &Database) -> Result<(), DbErr> {
    let delete = format!("DELETE FROM {COPIED_TABLES}");
    database.write().execute_unprepared(&delete).await.map(drop)
}

/// Removes the mark of an unfinished copy, which is complete.
///
/// # Errors
/// Returns the error of the database.
pub async fn complete(database: &Database) -> Result<(), DbErr> {
    database
        .transaction(async |transaction| {
            for table in [COPIED_TABLES, UNFINISHED] {
                transaction
                    .execute_unprepared(&format!("DROP TABLE {table}"))
                    .await?;
            }
            Ok(())
        })
        .await
}

/// Marks the original of a copy in use. `to` is the kind of the database with the copy.
///
/// # Errors
/// Returns the error of the database.
pub async fn set_moved(database: &Database, to: &str) -> Result<(), DbErr> {
    let time = match database.backend() {
        DatabaseBackend::Sqlite => "text",
        _ => "timestamp with time zone",
    };
    database
        .transaction(async |transaction| {
            let create = format!("CREATE TABLE {MOVED} (moved_to text NOT NULL, moved_at {time} NOT NULL)");
            transaction.execute_unprepared(&create).await?;
            let sql = format!("INSERT INTO {MOVED} (moved_to, moved_at) VALUES ($1, $2)");
            let values = [to.into(), now().into()];
            let insert = Statement::from_sql_and_values(database.backend(), sql, values);
            transaction.execute_raw(insert).await?;
            Ok(())
        })
        .await
}

/// Returns a count in the type that both databases store.
pub(super) fn signed(count: u64) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}
