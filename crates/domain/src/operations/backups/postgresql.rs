//! PostgreSQL's part of a backup: one file per table, in the text format of `COPY`.

use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use futures_util::TryStreamExt;
use sea_orm::sqlx::{self, AssertSqlSafe, PgConnection, Postgres, Row, Transaction};
use serde::{Deserialize, Serialize};
use storage::database::Database;
use storage::database_copy::truncation;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use super::file_store::StoredFile;
use super::rejected;
use super::snapshot::{RowReceiver, Snapshot};
use crate::kernel::error::{Error, Result};

/// The table of applied migrations. Migrations create the schema; the backup does not contain it.
pub(super) const MIGRATIONS: &str = "seaql_migrations";
/// Bytes that are read from a file at a time.
const READ_BYTES: usize = 256 << 10;

/// A table that was copied to a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TableDump {
    pub(super) name: String,
    pub(super) columns: Vec<String>,
    pub(super) rows: u64,
    /// The last ID that was assigned to a row, which may be deleted. Older versions did not record it.
    #[serde(default)]
    pub(super) last_id: Option<i64>,
}

/// The copy of a table in a backup.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct TableCopy {
    #[serde(flatten)]
    pub(super) dump: TableDump,
    pub(super) file: StoredFile,
}

impl TableDump {
    /// Returns the name of the file.
    pub(super) fn file(&self) -> String {
        format!("{}.copy", self.name)
    }

    /// Returns whether the name of the table can be that of a file.
    pub(super) fn has_file_name(&self) -> bool {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        !self.name.is_empty() && self.name.bytes().all(plain)
    }

    /// Returns the quoted table name and columns.
    fn quoted(&self) -> String {
        let columns: Vec<String> = self.columns.iter().map(|column| quote(column)).collect();
        format!("{} ({})", quote(&self.name), columns.join(", "))
    }
}

fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Copies every table in one snapshot, and returns the applied migrations and the tables.
pub(super) async fn dump(database: &Database, target: &Path) -> Result<(Vec<String>, Vec<TableDump>)> {
    let pool = database.read().pool().get_postgres_connection_pool();
    let mut transaction = pool.begin().await.map_err(Error::internal)?;
    sqlx::raw_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        .execute(&mut *transaction)
        .await
        .map_err(Error::internal)?;
    let migrations = migrations(&mut transaction).await?;
    let mut tables = tables(&mut transaction).await?;
    for table in &mut tables {
        let path = target.join(table.file());
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let opened = tokio::fs::OpenOptions::from(options).open(&path).await;
        let mut file = opened.map_err(Error::internal)?;
        let statement = format!("COPY {} TO STDOUT", table.quoted());
        let mut rows = transaction
            .copy_out_raw(&statement)
            .await
            .map_err(Error::internal)?;
        while let Some(bytes) = rows.try_next().await.map_err(Error::internal)? {
            // Values contain no line feeds, because the format escapes them.
            table.rows += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
            file.write_all(&bytes).await.map_err(Error::internal)?;
        }
        file.flush().await.map_err(Error::internal)?;
        drop(rows);
        // Read after the rows: a sequence is not part of the snapshot, so its value is at least that of each row.
        table.last_id = last_id(&mut transaction, table).await?;
    }
    transaction.rollback().await.map_err(Error::internal)?;
    Ok((migrations, tables))
}

/// Passes columns of all rows of a file to a receiver, and returns the number of rows.
pub(super) async fn read_rows(
    path: &Path,
    table: &TableDump,
    columns: &[&str],
    receive: RowReceiver<'_>,
) -> Result<u64> {
    let malformed = |text: String| {
        rejected(format!(
            "the copy of the table {} is malformed: {text}",
            table.name
        ))
    };
    let position = |column: &&str| {
        let found = table.columns.iter().position(|known| known == column);
        found.ok_or_else(|| malformed(format!("it has no column {column}")))
    };
    let positions = columns.iter().map(position).collect::<Result<Vec<usize>>>()?;
    let file = tokio::fs::File::open(path).await.map_err(Error::internal)?;
    let mut file = BufReader::with_capacity(READ_BYTES, file);
    let (mut rows, mut line) = (0, Vec::new());
    loop {
        line.clear();
        if file.read_until(b'\n', &mut line).await.map_err(Error::internal)? == 0 {
            return Ok(rows);
        }
        rows += 1;
        let Some(text) = line.strip_suffix(b"\n") else {
            return Err(malformed("its last line is incomplete".to_owned()));
        };
        let text = std::str::from_utf8(text).map_err(|error| malformed(error.to_string()))?;
        // A table without columns has empty lines.
        let fields: Vec<&str> = text.split('\t').collect();
        if fields.len() != table.columns.len().max(1) {
            return Err(malformed(format!("line {rows} has {} columns", fields.len())));
        }
        let values = positions.iter().map(|position| unescape(fields[*position]));
        receive(values.collect())?;
    }
}

/// Returns the value of a field; `None` for null.
fn unescape(field: &str) -> Option<String> {
    if field == "\\N" {
        return None;
    }
    let mut value = String::with_capacity(field.len());
    let mut characters = field.chars();
    while let Some(character) = characters.next() {
        value.push(match character {
            '\\' => match characters.next() {
                Some('b') => '\u{8}',
                Some('f') => '\u{c}',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('t') => '\t',
                Some('v') => '\u{b}',
                Some(other) => other,
                None => '\\',
            },
            other => other,
        });
    }
    Some(value)
}

/// Returns whether the database has no tables.
pub(super) async fn is_empty(database: &Database) -> Result<bool> {
    let pool = database.write().pool().get_postgres_connection_pool().clone();
    let mut connection = pool.acquire().await.map_err(Error::internal)?;
    Ok(tables(&mut connection).await?.is_empty())
}

/// Replaces the content of every table with a copy, in one transaction, and sets the ID of the instance. The schema
/// must be that of the copy.
pub(super) async fn restore(database: &Database, copy: &Snapshot, instance_id: &str) -> Result<()> {
    let pool = database.write().pool().get_postgres_connection_pool().clone();
    let mut transaction = pool.begin().await.map_err(Error::internal)?;
    if migrations(&mut transaction).await? != copy.migrations {
        let text = "the backup has another version of the database schema; restore it with the version that \
                    created it";
        return Err(Error::Rejected(text.into()));
    }
    let known = tables(&mut transaction).await?;
    truncate(&mut transaction, &known).await?;
    for table in &copy.tables {
        // The names come from a file. Only names of the schema itself may reach a statement.
        let known = known.iter().find(|known| known.name == table.name);
        let has_columns =
            |known: &&TableDump| table.columns.iter().all(|column| known.columns.contains(column));
        if known.filter(has_columns).is_none() {
            return Err(rejected(format!(
                "the database schema has no such table: {}",
                table.name
            )));
        }
        let file = tokio::fs::File::open(copy.table(table))
            .await
            .map_err(Error::internal)?;
        let statement = format!("COPY {} FROM STDIN", table.quoted());
        let mut rows = transaction
            .copy_in_raw(&statement)
            .await
            .map_err(Error::internal)?;
        rows.read_from(BufReader::with_capacity(READ_BYTES, file))
            .await
            .map_err(Error::internal)?;
        rows.finish().await.map_err(Error::internal)?;
        advance_sequence(&mut transaction, table).await?;
    }
    // In this transaction, so that another attempt recognizes the rows as its own.
    sqlx::query("UPDATE instances SET instance_id = $1")
        .bind(instance_id)
        .execute(&mut *transaction)
        .await
        .map_err(Error::internal)?;
    transaction.commit().await.map_err(Error::internal)
}

async fn truncate(transaction: &mut Transaction<'_, Postgres>, tables: &[TableDump]) -> Result<()> {
    let names: Vec<String> = tables.iter().map(|table| quote(&table.name)).collect();
    if names.is_empty() {
        return Ok(());
    }
    sqlx::raw_sql(AssertSqlSafe(truncation(&names, false)))
        .execute(&mut **transaction)
        .await
        .map_err(Error::internal)?;
    Ok(())
}

/// Returns whether another process of Holdfast is connected to the database, besides one
/// connection of the caller.
pub(super) async fn is_in_use(database: &Database) -> Result<bool> {
    let pool = database.write().pool().get_postgres_connection_pool();
    let row = sqlx::query(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
         AND application_name = 'holdfast' AND pid <> pg_backend_pid()",
    );
    let row = row.fetch_one(pool).await.map_err(Error::internal)?;
    let others: i64 = row.try_get(0).map_err(Error::internal)?;
    Ok(others > 0)
}

/// Returns the last ID that the sequence of a table assigned; none if the table has no sequence.
async fn last_id(connection: &mut PgConnection, table: &TableDump) -> Result<Option<i64>> {
    if !table.columns.iter().any(|column| column == "id") {
        return Ok(None);
    }
    let sequence: Option<String> = sqlx::query_scalar("SELECT pg_get_serial_sequence($1, 'id')")
        .bind(quote(&table.name))
        .fetch_one(&mut *connection)
        .await
        .map_err(Error::internal)?;
    let Some(sequence) = sequence else {
        return Ok(None);
    };
    // PostgreSQL returns the name of a sequence quoted.
    let statement =
        format!("SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM {sequence}");
    let last: i64 = sqlx::query_scalar(AssertSqlSafe(statement))
        .fetch_one(connection)
        .await
        .map_err(Error::internal)?;
    Ok(Some(last))
}

/// Sets the ID sequence of a table to continue after the copied rows and the deleted rows with higher IDs.
async fn advance_sequence(connection: &mut PgConnection, table: &TableDump) -> Result<()> {
    if !table.columns.iter().any(|column| column == "id") {
        return Ok(());
    }
    let statement = format!(
        "SELECT setval(sequence, greatest((SELECT max(id) FROM {0}), $2::bigint, 1), \
         greatest((SELECT max(id) FROM {0}), $2::bigint, 0) > 0) FROM pg_get_serial_sequence($1, 'id') AS sequence \
         WHERE sequence IS NOT NULL",
        quote(&table.name)
    );
    sqlx::query(AssertSqlSafe(statement))
        .bind(quote(&table.name))
        .bind(table.last_id)
        .execute(connection)
        .await
        .map_err(Error::internal)?;
    Ok(())
}

async fn migrations(connection: &mut PgConnection) -> Result<Vec<String>> {
    let rows = sqlx::query("SELECT version FROM seaql_migrations ORDER BY version")
        .fetch_all(connection)
        .await
        .map_err(Error::internal)?;
    let names = rows.iter().map(|row| row.try_get(0));
    names
        .collect::<std::result::Result<_, _>>()
        .map_err(Error::internal)
}

/// Returns the tables of the schema, each after the tables it references. References of a table to itself are
/// ignored, because they are checked after the whole table is copied.
async fn tables(connection: &mut PgConnection) -> Result<Vec<TableDump>> {
    let rows = sqlx::query(
        "SELECT t.relname::text, \
           array(SELECT attname::text FROM pg_attribute WHERE attrelid = t.oid AND attnum > 0 \
                 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum), \
           array(SELECT DISTINCT r.relname::text FROM pg_constraint c JOIN pg_class r ON r.oid = c.confrelid \
                 WHERE c.conrelid = t.oid AND c.contype = 'f' AND c.confrelid <> t.oid) \
         FROM pg_class t WHERE t.relkind = 'r' AND t.relnamespace = current_schema()::regnamespace \
         ORDER BY t.relname",
    )
    .fetch_all(connection)
    .await
    .map_err(Error::internal)?;
    let mut waiting: Vec<(TableDump, Vec<String>)> = Vec::new();
    for row in rows {
        let name: String = row.try_get(0).map_err(Error::internal)?;
        if name == MIGRATIONS {
            continue;
        }
        let columns = row.try_get(1).map_err(Error::internal)?;
        let refers_to = row.try_get(2).map_err(Error::internal)?;
        let dump = TableDump {
            name,
            columns,
            rows: 0,
            last_id: None,
        };
        waiting.push((dump, refers_to));
    }
    let mut sorted: Vec<TableDump> = Vec::new();
    while !waiting.is_empty() {
        let is_ready = |refers_to: &[String]| {
            refers_to
                .iter()
                .all(|other| sorted.iter().any(|table| table.name == *other))
        };
        let (ready, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut waiting)
            .into_iter()
            .partition(|(_, refers_to)| is_ready(refers_to));
        if ready.is_empty() {
            return Err(Error::internal("tables have circular references"));
        }
        sorted.extend(ready.into_iter().map(|(table, _)| table));
        waiting = rest;
    }
    Ok(sorted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_unescaped() {
        for (field, value) in [
            ("\\N", None),
            ("", Some("")),
            ("N", Some("N")),
            ("a\\\\N", Some("a\\N")),
            ("1\\t2\\n3\\r4", Some("1\t2\n3\r4")),
            ("\\b\\f\\v\\x", Some("\u{8}\u{c}\u{b}x")),
            ("ä", Some("ä")),
        ] {
            assert_eq!(unescape(field).as_deref(), value, "{field}");
        }
    }

    #[tokio::test]
    async fn rows_are_counted_and_malformed_files_rejected() {
        let table = TableDump {
            name: "t".to_owned(),
            columns: vec!["a".to_owned(), "b".to_owned()],
            rows: 0,
            last_id: None,
        };
        let file = tempfile::NamedTempFile::new().expect("a file");
        for (text, expected) in [
            (&b"1\t2\n3\t\\N\n"[..], Some(vec![Some("2"), None])),
            (b"", Some(vec![])),
            (b"1\t2\n3\t4", None),
            (b"1\t2\t3\n", None),
            (b"1\n", None),
            (b"1\t\xff\n", None),
        ] {
            std::fs::write(file.path(), text).expect("a file");
            let mut found = Vec::new();
            let mut receive = |row: Vec<Option<String>>| {
                found.extend(row);
                Ok(())
            };
            let rows = read_rows(file.path(), &table, &["b"], &mut receive).await.ok();
            assert_eq!(
                rows,
                expected.as_ref().map(|expected| expected.len() as u64),
                "{text:?}"
            );
            if let Some(expected) = expected {
                assert_eq!(found.iter().map(Option::as_deref).collect::<Vec<_>>(), expected);
            }
        }
        let none: RowReceiver<'_> = &mut |_| Ok(());
        assert!(read_rows(file.path(), &table, &["c"], none).await.is_err());
    }
}
