//! PostgreSQL's part of a backup: one file per table, in the text format of `COPY`.

use std::path::Path;

use futures_util::TryStreamExt;
use sea_orm::sqlx::{self, AssertSqlSafe, PgConnection, Row};
use serde::{Deserialize, Serialize};
use storage::database::{self, Database};
use tokio::io::AsyncWriteExt;

use crate::kernel::error::{Error, Result};

/// The table of applied migrations. Migrations create the schema; the backup does not contain it.
const MIGRATIONS: &str = "seaql_migrations";

/// Contents of a dump.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct DatabaseDump {
    /// The applied migrations.
    migrations: Vec<String>,
    /// The tables, each after the tables it references.
    tables: Vec<DumpedTable>,
}

#[derive(Debug, Serialize, Deserialize)]
struct DumpedTable {
    name: String,
    columns: Vec<String>,
}

impl DumpedTable {
    fn file(&self) -> String {
        format!("{}.copy", self.name)
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

/// Copies every table in one snapshot.
pub(super) async fn dump(database: &Database, target: &Path) -> Result<DatabaseDump> {
    let pool = database.read().pool().get_postgres_connection_pool();
    let mut transaction = pool.begin().await.map_err(Error::internal)?;
    sqlx::raw_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        .execute(&mut *transaction)
        .await
        .map_err(Error::internal)?;
    let dump = DatabaseDump {
        migrations: migrations(&mut transaction).await?,
        tables: tables(&mut transaction).await?,
    };
    for table in &dump.tables {
        let path = target.join(table.file());
        super::write_private(&path, b"").map_err(Error::internal)?;
        let opened = tokio::fs::OpenOptions::new().append(true).open(&path).await;
        let mut file = opened.map_err(Error::internal)?;
        let statement = format!("COPY {} TO STDOUT", table.quoted());
        let mut rows = transaction
            .copy_out_raw(&statement)
            .await
            .map_err(Error::internal)?;
        while let Some(bytes) = rows.try_next().await.map_err(Error::internal)? {
            file.write_all(&bytes).await.map_err(Error::internal)?;
        }
        file.sync_all().await.map_err(Error::internal)?;
    }
    transaction.rollback().await.map_err(Error::internal)?;
    Ok(dump)
}

/// Creates the schema in an empty database and copies every table into it, in one transaction.
pub(super) async fn restore(dump: &DatabaseDump, source: &Path, database_url: &str) -> Result<()> {
    if !database_url.starts_with("postgres") {
        let text = "the backup is for PostgreSQL, but the database URL is not";
        return Err(Error::Rejected(text.into()));
    }
    let database = Database::connect(database_url, &database::DatabaseOptions::default()).await?;
    let pool = database.write().pool().get_postgres_connection_pool().clone();
    let mut connection = pool.acquire().await.map_err(Error::internal)?;
    if !tables(&mut connection).await?.is_empty() {
        return Err(Error::Rejected("the database is not empty".into()));
    }
    drop(connection);
    database.migrate().await?;
    let mut transaction = pool.begin().await.map_err(Error::internal)?;
    if migrations(&mut transaction).await? != dump.migrations {
        let text = "the backup has another version of the database schema; restore it with the version that \
                    created it";
        return Err(Error::Rejected(text.into()));
    }
    let known = tables(&mut transaction).await?;
    for table in &dump.tables {
        // The names come from a file. Only names of the schema itself may reach a statement.
        let known = known.iter().find(|known| known.name == table.name);
        let has_columns =
            |known: &&DumpedTable| table.columns.iter().all(|column| known.columns.contains(column));
        if known.filter(has_columns).is_none() {
            return Err(Error::Rejected(
                format!("the database schema has no such table: {}", table.name).into(),
            ));
        }
        let file = tokio::fs::File::open(source.join(table.file()))
            .await
            .map_err(Error::internal)?;
        let statement = format!("COPY {} FROM STDIN", table.quoted());
        let mut copy = transaction
            .copy_in_raw(&statement)
            .await
            .map_err(Error::internal)?;
        copy.read_from(file).await.map_err(Error::internal)?;
        copy.finish().await.map_err(Error::internal)?;
        advance_sequence(&mut transaction, table).await?;
    }
    transaction.commit().await.map_err(Error::internal)?;
    pool.close().await;
    Ok(())
}

/// Sets the ID sequence of a table to continue after the copied rows.
async fn advance_sequence(connection: &mut PgConnection, table: &DumpedTable) -> Result<()> {
    if !table.columns.iter().any(|column| column == "id") {
        return Ok(());
    }
    let statement = format!(
        "SELECT setval(sequence, greatest((SELECT coalesce(max(id), 0) FROM {0}), 1), \
         (SELECT count(*) > 0 FROM {0})) FROM pg_get_serial_sequence($1, 'id') AS sequence \
         WHERE sequence IS NOT NULL",
        quote(&table.name)
    );
    sqlx::query(AssertSqlSafe(statement))
        .bind(quote(&table.name))
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
async fn tables(connection: &mut PgConnection) -> Result<Vec<DumpedTable>> {
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
    let mut waiting: Vec<(DumpedTable, Vec<String>)> = Vec::new();
    for row in rows {
        let name: String = row.try_get(0).map_err(Error::internal)?;
        if name == MIGRATIONS {
            continue;
        }
        let columns = row.try_get(1).map_err(Error::internal)?;
        let refers_to = row.try_get(2).map_err(Error::internal)?;
        waiting.push((DumpedTable { name, columns }, refers_to));
    }
    let mut sorted: Vec<DumpedTable> = Vec::new();
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
