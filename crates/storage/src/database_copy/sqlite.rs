//! Rows and schema of SQLite.

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use sea_orm::sqlx::sqlite::{SqliteArguments, SqliteRow};
use sea_orm::sqlx::{
    self, AssertSqlSafe, Connection, Row as _, Sqlite, SqliteConnection, TypeInfo, ValueRef,
};

use chrono::{DateTime, SubsecRound, Utc};

use super::schema::{Column, ColumnKind, IntegerWidth, OWN_TABLES, Table, quote};
use super::value::{Row, TableDigest, Value};
use super::{Error, Observer, Result, mark};

/// Maximum number of rows that one statement inserts.
const MAX_ROWS: usize = 500;
/// Maximum number of values that one statement inserts; SQLite accepts 32,766.
const MAX_VALUES: usize = 30_000;
/// Size of the values from which a statement inserts no more rows, in bytes.
const MAX_BYTES: usize = 4 << 20;

/// Reads the tables. Excludes full-text indexes and their tables, which [`rebuild_indexes`] fills.
pub(super) async fn tables(connection: &mut SqliteConnection) -> Result<Vec<Table>> {
    let names: Vec<String> = sqlx::query_scalar(
        "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' \
         AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name",
    )
    .fetch_all(&mut *connection)
    .await?;
    let mut tables = Vec::new();
    for name in names {
        if OWN_TABLES.contains(&name.as_str()) {
            continue;
        }
        // Hidden columns are generated.
        let rows =
            sqlx::query("SELECT name, type, pk FROM pragma_table_xinfo(?) WHERE hidden = 0 ORDER BY cid")
                .bind(&name)
                .fetch_all(&mut *connection)
                .await?;
        let (mut columns, mut primary_key) = (Vec::new(), Vec::new());
        for row in rows {
            let (column, declared, position): (String, String, i64) =
                (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            let kind = kind(&declared).ok_or_else(|| Error::unknown_type(&name, &column, &declared))?;
            if position > 0 {
                primary_key.push((position, column.clone()));
            }
            columns.push(Column { name: column, kind });
        }
        primary_key.sort_unstable();
        tables.push(Table {
            name,
            columns,
            primary_key: primary_key.into_iter().map(|(_, column)| column).collect(),
            // PostgreSQL returns both.
            references: Vec::new(),
            sequence: None,
        });
    }
    Ok(tables)
}

/// Returns the kind of a declared type: those that migrations use.
fn kind(declared: &str) -> Option<ColumnKind> {
    let declared = declared.to_ascii_lowercase();
    let name = declared.split('(').next().unwrap_or_default().trim();
    Some(match name {
        "boolean" => ColumnKind::Boolean,
        "integer" | "bigint" | "smallint" => ColumnKind::Integer(IntegerWidth::Eight),
        "double" | "real" => ColumnKind::Real,
        "text" | "varchar" => ColumnKind::Text,
        "blob" => ColumnKind::Bytes,
        "timestamp_with_timezone_text" => ColumnKind::Time,
        "date_text" => ColumnKind::Date,
        _ => return None,
    })
}

/// Reads all rows of a table.
pub(super) fn rows<'c>(connection: &'c mut SqliteConnection, table: &'c Table) -> BoxStream<'c, Result<Row>> {
    let rows = sqlx::query(AssertSqlSafe(table.select())).fetch(connection);
    super::read_rows(rows, table, value)
}

/// Reads a value. SQLite does not enforce the types of columns, so a value of another type is an error.
fn value(row: &SqliteRow, index: usize, kind: ColumnKind) -> std::result::Result<Value, String> {
    let raw = row.try_get_raw(index).map_err(|error| error.to_string())?;
    if raw.is_null() {
        return Ok(Value::Null);
    }
    let found = raw.type_info().name().to_owned();
    let expected = match kind {
        ColumnKind::Boolean | ColumnKind::Integer(_) => "INTEGER",
        ColumnKind::Real => "REAL",
        ColumnKind::Text | ColumnKind::Time | ColumnKind::Date => "TEXT",
        ColumnKind::Bytes => "BLOB",
    };
    if found != expected {
        return Err(format!("the value has the type {found} instead of {expected}"));
    }
    let decoded = match kind {
        ColumnKind::Boolean => match row.try_get::<i64, _>(index) {
            Ok(number @ (0 | 1)) => Ok(Value::Boolean(number == 1)),
            Ok(number) => return Err(format!("the value {number} is no boolean")),
            Err(error) => Err(error),
        },
        ColumnKind::Integer(_) => row.try_get(index).map(Value::Integer),
        ColumnKind::Real => row.try_get(index).map(Value::Real),
        ColumnKind::Text => row.try_get(index).map(Value::Text),
        ColumnKind::Bytes => row.try_get(index).map(Value::Bytes),
        ColumnKind::Time => row
            .try_get(index)
            .map(|time: DateTime<Utc>| Value::Time(time.trunc_subsecs(6))),
        ColumnKind::Date => row.try_get(index).map(Value::Date),
    };
    // The error of a time or a date contains the value.
    decoded.map_err(|_| "the value cannot be read".to_owned())
}

/// Copies rows into an empty table, and records that the table is copied. Both happen in one transaction.
pub(super) async fn insert(
    connection: &mut SqliteConnection,
    table: &Table,
    mut rows: BoxStream<'_, Result<Row>>,
    observe: &mut Observer<'_>,
) -> Result<TableDigest> {
    let failed = |cause| Error::of_table(table, cause);
    let mut transaction = connection.begin().await.map_err(failed)?;
    // Rows of a table can refer to later rows of the same table.
    run(&mut transaction, "PRAGMA defer_foreign_keys = ON").await?;
    let triggers = drop_triggers(&mut transaction, Some(table)).await?;
    let columns = table.columns.len().max(1);
    let full = MAX_ROWS.min(MAX_VALUES / columns).max(1);
    let full_statement = insertion(table, full);
    let (mut digest, mut batch, mut bytes) = (TableDigest::default(), Vec::new(), 0);
    loop {
        let row = rows.next().await.transpose()?;
        let is_end = row.is_none();
        if let Some(row) = row {
            digest.add(&row);
            bytes += row.iter().map(Value::size).sum::<usize>();
            batch.push(row);
        }
        if batch.len() == full || bytes >= MAX_BYTES || (is_end && !batch.is_empty()) {
            let is_full = batch.len() == full;
            let statement = match is_full {
                true => full_statement.clone(),
                false => insertion(table, batch.len()),
            };
            let query = sqlx::query(AssertSqlSafe(statement)).persistent(is_full);
            let query = batch.drain(..).flatten().fold(query, bind);
            query.execute(&mut *transaction).await.map_err(failed)?;
            bytes = 0;
            observe(digest.rows);
        }
        if is_end {
            break;
        }
    }
    restore_triggers(&mut transaction, triggers).await?;
    let recorded = sqlx::query(mark::RECORD)
        .bind(&table.name)
        .bind(mark::signed(digest.rows))
        .bind(digest.checksum());
    recorded.execute(&mut *transaction).await.map_err(failed)?;
    transaction.commit().await.map_err(failed)?;
    Ok(digest)
}

/// Returns the statement that inserts this number of rows.
fn insertion(table: &Table, rows: usize) -> String {
    let row = format!("({})", vec!["?"; table.columns.len()].join(", "));
    let rows = vec![row.as_str(); rows].join(", ");
    format!(
        "INSERT INTO {} ({}) VALUES {rows}",
        quote(&table.name),
        table.column_list()
    )
}

type Query = sqlx::query::Query<'static, Sqlite, SqliteArguments>;

/// Adds a value in the form in which the server stores it.
fn bind(query: Query, value: Value) -> Query {
    match value {
        Value::Null => query.bind(None::<i64>),
        Value::Boolean(value) => query.bind(value),
        Value::Integer(value) => query.bind(value),
        Value::Real(value) => query.bind(value),
        Value::Text(text) => query.bind(text),
        Value::Bytes(bytes) => query.bind(bytes),
        Value::Time(time) => query.bind(time),
        Value::Date(date) => query.bind(date),
    }
}

/// Drops the triggers of a table or of all tables, which would change or reject copied rows. Returns their statements.
async fn drop_triggers(connection: &mut SqliteConnection, table: Option<&Table>) -> Result<Vec<String>> {
    let triggers: Vec<(String, String)> = sqlx::query_as(
        "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND (tbl_name = ?1 OR ?1 IS NULL) ORDER BY name",
    )
    .bind(table.map(|table| &table.name))
    .fetch_all(&mut *connection)
    .await?;
    let mut statements = Vec::new();
    for (name, statement) in triggers {
        run(connection, &format!("DROP TRIGGER {}", quote(&name))).await?;
        statements.push(statement);
    }
    Ok(statements)
}

async fn restore_triggers(connection: &mut SqliteConnection, statements: Vec<String>) -> Result<()> {
    for statement in statements {
        run(connection, &statement).await?;
    }
    Ok(())
}

/// Deletes all rows of all tables, and the record of the copied tables.
pub(super) async fn clear(connection: &mut SqliteConnection, tables: &[Table]) -> Result<()> {
    // Has no effect within a transaction.
    run(connection, "PRAGMA foreign_keys = OFF").await?;
    let mut transaction = connection.begin().await?;
    let triggers = drop_triggers(&mut transaction, None).await?;
    let names = tables.iter().map(|table| table.name.as_str());
    for name in names.chain([mark::COPIED_TABLES, "sqlite_sequence"]) {
        run(&mut transaction, &format!("DELETE FROM {}", quote(name))).await?;
    }
    restore_triggers(&mut transaction, triggers).await?;
    transaction.commit().await?;
    run(connection, "PRAGMA foreign_keys = ON").await
}

/// Fills the full-text indexes from the tables that they index.
pub(super) async fn rebuild_indexes(connection: &mut SqliteConnection) -> Result<()> {
    let names: Vec<String> = sqlx::query_scalar(
        "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'virtual' ORDER BY name",
    )
    .fetch_all(&mut *connection)
    .await?;
    for name in names {
        let name = quote(&name);
        run(
            connection,
            &format!("INSERT INTO {name} ({name}) VALUES ('rebuild')"),
        )
        .await?;
    }
    Ok(())
}

/// Returns the last ID that was assigned to a row of a table; 0 if none was.
pub(super) async fn last_id(connection: &mut SqliteConnection, table: &Table) -> Result<i64> {
    let last: Option<i64> = sqlx::query_scalar("SELECT seq FROM sqlite_sequence WHERE name = ?")
        .bind(&table.name)
        .fetch_optional(connection)
        .await
        .map_err(|cause| Error::of_table(table, cause))?;
    Ok(last.unwrap_or_default())
}

/// Sets the last ID that was assigned to a row of a table.
pub(super) async fn set_last_id(connection: &mut SqliteConnection, table: &Table, last: i64) -> Result<()> {
    let failed = |cause| Error::of_table(table, cause);
    let mut transaction = connection.begin().await.map_err(failed)?;
    let deleted = sqlx::query("DELETE FROM sqlite_sequence WHERE name = ?").bind(&table.name);
    deleted.execute(&mut *transaction).await.map_err(failed)?;
    if last > 0 {
        let inserted = sqlx::query("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)");
        let inserted = inserted.bind(&table.name).bind(last);
        inserted.execute(&mut *transaction).await.map_err(failed)?;
    }
    transaction.commit().await.map_err(failed)
}

/// Runs a statement that contains only names of the schema.
pub(super) async fn run(connection: &mut SqliteConnection, statement: &str) -> Result<()> {
    sqlx::raw_sql(AssertSqlSafe(statement.to_owned()))
        .execute(connection)
        .await?;
    Ok(())
}
