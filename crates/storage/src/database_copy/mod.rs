//! Copies of the rows of a database into a database of the other kind.
//!
//! The tables are read from both databases, so each table of the schema is copied. A table is copied in one transaction,
//! which also records its checksum. So an interrupted copy continues with the next table. Rows are streamed: memory is
//! limited by the largest rows, not by the table.

mod mark;
mod postgresql;
mod schema;
mod sqlite;
#[cfg(test)]
#[warn(dead_code)]
mod tests;
mod value;

use std::collections::BTreeMap;

use futures_util::{Stream, StreamExt, stream::BoxStream};
use sea_orm::sqlx::pool::PoolConnection;
use sea_orm::sqlx::{self, ColumnIndex, Decode, Postgres, Sqlite, Type};
use sea_orm::{DatabaseBackend, DbErr};

use crate::database::{self, Database};

pub use mark::{Mark, begin, complete, forget_copied_tables, get as mark, set_moved};
pub use postgresql::truncation;
use schema::ColumnKind;
pub use schema::Table;
pub use value::TableDigest;
use value::{Row, Value};

/// Receives the number of rows of a table that were copied or read so far.
pub type Observer<'o> = dyn FnMut(u64) + Send + 'o;

/// Rows between two calls of the observer of a digest.
const ROWS_PER_CALL: u64 = 5_000;

/// Reason why a copy failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A database cannot be opened or has another schema.
    #[error(transparent)]
    Open(#[from] database::Error),
    /// A statement failed.
    #[error("database: {0}")]
    Database(#[from] sqlx::Error),
    /// A statement failed.
    #[error("database: {0}")]
    Statement(#[from] DbErr),
    /// The databases do not have the same tables and columns.
    #[error("{0}")]
    Schema(String),
    /// A statement on a table failed.
    #[error("table {table}: {cause}")]
    Table {
        /// The table.
        table: String,
        /// The error of the database.
        cause: sqlx::Error,
    },
    /// A value cannot be copied.
    #[error("table {table}, row {row}, column {column}: {reason}")]
    Value {
        /// The table.
        table: String,
        /// The primary key of the row.
        row: String,
        /// The column.
        column: String,
        /// The reason. Does not contain the value, which can be secret.
        reason: String,
    },
}

/// Result of a part of a copy.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    fn of_table(table: &Table, cause: sqlx::Error) -> Self {
        Self::Table {
            table: table.name.clone(),
            cause,
        }
    }

    fn unknown_type(table: &str, column: &str, declared: &str) -> Self {
        Self::Schema(format!(
            "the column {table}.{column} has the type {declared}, which cannot be copied"
        ))
    }
}

/// A connection to a database that is copied, or to its copy.
#[derive(Debug)]
pub struct CopyConnection(Side);

#[derive(Debug)]
enum Side {
    Sqlite(PoolConnection<Sqlite>),
    Postgresql(PoolConnection<Postgres>),
}

impl CopyConnection {
    /// Opens a connection to the copy.
    ///
    /// # Errors
    /// If no connection can be opened.
    pub async fn to_copy(database: &Database) -> Result<Self> {
        let pool = database.write().pool();
        Ok(Self(match database.backend() {
            DatabaseBackend::Sqlite => Side::Sqlite(pool.get_sqlite_connection_pool().acquire().await?),
            _ => Side::Postgresql(pool.get_postgres_connection_pool().acquire().await?),
        }))
    }

    /// Opens a connection to the original. Until the connection is dropped, it reads the state of its first statement.
    ///
    /// # Errors
    /// If no connection can be opened.
    pub async fn to_original(database: &Database) -> Result<Self> {
        let mut connection = Self::to_copy(database).await?;
        match &mut connection.0 {
            Side::Sqlite(sqlite) => sqlite::run(sqlite, "BEGIN").await?,
            Side::Postgresql(postgresql) => {
                // PostgreSQL may be configured to close sessions that wait for the other database.
                let begin = "SET idle_in_transaction_session_timeout = 0; \
                             BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY";
                postgresql::run(postgresql, begin).await?;
            }
        }
        Ok(connection)
    }

    async fn tables(&mut self) -> Result<Vec<Table>> {
        match &mut self.0 {
            Side::Sqlite(sqlite) => sqlite::tables(sqlite).await,
            Side::Postgresql(postgresql) => postgresql::tables(postgresql).await,
        }
    }

    fn rows<'c>(&'c mut self, table: &'c Table) -> BoxStream<'c, Result<Row>> {
        match &mut self.0 {
            Side::Sqlite(sqlite) => sqlite::rows(sqlite, table),
            Side::Postgresql(postgresql) => postgresql::rows(postgresql, table),
        }
    }

    /// Returns the number of rows of a table.
    ///
    /// # Errors
    /// If the statement fails.
    pub async fn count(&mut self, table: &Table) -> Result<u64> {
        let statement = sqlx::AssertSqlSafe(format!("SELECT count(*) FROM {}", schema::quote(&table.name)));
        let count: sqlx::Result<i64> = match &mut self.0 {
            Side::Sqlite(sqlite) => sqlx::query_scalar(statement).fetch_one(&mut **sqlite).await,
            Side::Postgresql(postgresql) => sqlx::query_scalar(statement).fetch_one(&mut **postgresql).await,
        };
        let count = count.map_err(|cause| Error::of_table(table, cause))?;
        Ok(count.try_into().unwrap_or_default())
    }

    /// Reads all rows of a table and returns their number and checksum.
    ///
    /// # Errors
    /// If a statement fails, or a value has another type than its column.
    pub async fn digest(&mut self, table: &Table, observe: &mut Observer<'_>) -> Result<TableDigest> {
        let mut digest = TableDigest::default();
        let mut rows = self.rows(table);
        while let Some(row) = rows.next().await {
            digest.add(&row?);
            if digest.rows.is_multiple_of(ROWS_PER_CALL) {
                observe(digest.rows);
            }
        }
        Ok(digest)
    }

    /// Returns the last ID that was assigned to a row of a table, also if the row was deleted; 0 if none was. IDs are never
    /// reused, because paths of repositories contain them.
    ///
    /// # Errors
    /// If the statement fails.
    pub async fn last_id(&mut self, table: &Table) -> Result<i64> {
        match &mut self.0 {
            Side::Sqlite(sqlite) => sqlite::last_id(sqlite, table).await,
            Side::Postgresql(postgresql) => postgresql::last_id(postgresql, table).await,
        }
    }

    /// Sets the last ID that was assigned to a row of a table.
    ///
    /// # Errors
    /// If the statement fails.
    pub async fn set_last_id(&mut self, table: &Table, last: i64) -> Result<()> {
        match &mut self.0 {
            Side::Sqlite(sqlite) => sqlite::set_last_id(sqlite, table, last).await,
            Side::Postgresql(postgresql) => postgresql::set_last_id(postgresql, table, last).await,
        }
    }

    /// Returns the tables that an unfinished copy has, with the digests of their rows.
    ///
    /// # Errors
    /// If the statement fails.
    pub async fn copied_tables(&mut self) -> Result<BTreeMap<String, TableDigest>> {
        const STATEMENT: &str = "SELECT name, row_count, checksum FROM database_copy_tables";
        let rows: Vec<(String, i64, String)> = match &mut self.0 {
            Side::Sqlite(sqlite) => sqlx::query_as(STATEMENT).fetch_all(&mut **sqlite).await?,
            Side::Postgresql(postgresql) => {
                postgresql::wait_for_commit(postgresql).await?;
                sqlx::query_as(STATEMENT).fetch_all(&mut **postgresql).await?
            }
        };
        let digests = rows
            .into_iter()
            .map(|(name, rows, checksum)| Some((name, TableDigest::parse(rows, &checksum)?)));
        // If a record was changed by hand, no table is trusted.
        Ok(digests.collect::<Option<_>>().unwrap_or_default())
    }

    /// Forgets which tables are copied, so that the next run starts over.
    ///
    /// # Errors
    /// If the statement fails.
    pub async fn forget_copied_tables(&mut self) -> Result<()> {
        self.run(&format!("DELETE FROM {}", mark::COPIED_TABLES)).await
    }

    /// Deletes all rows of a copy, and forgets which tables are copied.
    ///
    /// # Errors
    /// If a statement fails.
    pub async fn clear(&mut self, tables: &[Table]) -> Result<()> {
        match &mut self.0 {
            Side::Sqlite(sqlite) => sqlite::clear(sqlite, tables).await,
            Side::Postgresql(postgresql) => postgresql::clear(postgresql, tables).await,
        }
    }

    /// Copies all rows of a table into the same table of a copy, which is empty.
    ///
    /// # Errors
    /// If a statement fails, or a value cannot be stored in the other database.
    pub async fn copy_table(
        &mut self,
        copy: &mut Self,
        table: &Table,
        observe: &mut Observer<'_>,
    ) -> Result<TableDigest> {
        let rows = self.rows(table);
        match &mut copy.0 {
            Side::Sqlite(sqlite) => sqlite::insert(sqlite, table, rows, observe).await,
            Side::Postgresql(postgresql) => postgresql::insert(postgresql, table, rows, observe).await,
        }
    }

    /// Derives all data that is not copied: full-text indexes, and the statistics of the query planner.
    ///
    /// # Errors
    /// If a statement fails.
    pub async fn derive(&mut self) -> Result<()> {
        match &mut self.0 {
            Side::Sqlite(sqlite) => sqlite::rebuild_indexes(sqlite).await,
            Side::Postgresql(postgresql) => postgresql::run(postgresql, "ANALYZE").await,
        }
    }

    async fn run(&mut self, statement: &str) -> Result<()> {
        match &mut self.0 {
            Side::Sqlite(sqlite) => sqlite::run(sqlite, statement).await,
            Side::Postgresql(postgresql) => postgresql::run(postgresql, statement).await,
        }
    }
}

/// Returns the tables of both databases, each after the tables that it refers to.
///
/// # Errors
/// [`Error::Schema`] if the databases do not have the same tables and columns.
pub async fn common_tables(one: &mut CopyConnection, other: &mut CopyConnection) -> Result<Vec<Table>> {
    let (ours, theirs) = (one.tables().await?, other.tables().await?);
    match (&one.0, &other.0) {
        (Side::Postgresql(_), Side::Sqlite(_)) => schema::common(ours, &theirs),
        (Side::Sqlite(_), Side::Postgresql(_)) => schema::common(theirs, &ours),
        _ => Err(Error::Schema("both databases are of the same kind".to_owned())),
    }
}

/// Reads the values of the rows of a table.
fn read_rows<'c, R>(
    rows: impl Stream<Item = std::result::Result<R, sqlx::Error>> + Send + 'c,
    table: &'c Table,
    value: fn(&R, usize, ColumnKind) -> std::result::Result<Value, String>,
) -> BoxStream<'c, Result<Row>>
where
    R: sqlx::Row,
    for<'n> &'n str: ColumnIndex<R>,
    i64: Type<R::Database> + for<'r> Decode<'r, R::Database>,
{
    rows.map(move |row| {
        let row = row.map_err(|cause| Error::of_table(table, cause))?;
        let values = (0..).zip(&table.columns);
        values
            .map(|(index, column)| {
                value(&row, index, column.kind).map_err(|reason| Error::Value {
                    table: table.name.clone(),
                    column: column.name.clone(),
                    row: identify(&row, table),
                    reason,
                })
            })
            .collect()
    })
    .boxed()
}

/// Returns the primary key of a row, for errors. It does not return text, which can be secret.
fn identify<R>(row: &R, table: &Table) -> String
where
    R: sqlx::Row,
    for<'n> &'n str: ColumnIndex<R>,
    i64: Type<R::Database> + for<'r> Decode<'r, R::Database>,
{
    let key = table.primary_key.iter().map(|column| {
        let id = row.try_get::<i64, _>(column.as_str());
        id.map_or_else(|_| "?".to_owned(), |id| id.to_string())
    });
    key.collect::<Vec<_>>().join(", ")
}
