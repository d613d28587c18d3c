//! Copies of the database in a local directory: taken for a backup, or extracted from one.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use futures_util::TryStreamExt;
use sea_orm::sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sea_orm::sqlx::{self, AssertSqlSafe, Connection, Row};
use sea_orm::{ConnectionTrait, DatabaseBackend, Statement};
use storage::database::Database;

use super::file_store::FileStore;
use super::manifest::DatabaseCopy;
use super::postgresql::{self, TableDump};
use super::{blocking, rejected};
use crate::kernel::error::{Error, Result};
use crate::operations::instance_identity::DatabaseKind;

/// Name of the file of an SQLite database.
pub(super) const SQLITE: &str = "holdfast.db";
/// Prefix of the directories of snapshots.
const PREFIX: &str = "backup-";
/// Maximum number of reported problems of a database.
const MAX_PROBLEMS: usize = 20;

/// A copy of the database. Its directory is deleted when the value is dropped.
#[derive(Debug)]
pub(super) struct Snapshot {
    directory: PathBuf,
    _lock: File,
    pub(super) kind: DatabaseKind,
    pub(super) migrations: Vec<String>,
    pub(super) tables: Vec<TableDump>,
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.directory) {
            tracing::warn!(%error, path = %self.directory.display(), "failed to delete a copy of the database");
        }
    }
}

/// Receives the values of a row as text; `None` for null.
pub(super) type RowReceiver<'a> = &'a mut (dyn FnMut(Vec<Option<String>>) -> Result<()> + Send);

impl Snapshot {
    /// Copies the database into a new directory below `parent`, in one snapshot. It contains what was committed before.
    ///
    /// # Errors
    /// Returns an error if the database or the disk fails.
    pub(super) async fn take(database: &Database, parent: &Path) -> Result<Self> {
        let mut snapshot = Self::create(parent, kind(database)).await?;
        match snapshot.kind {
            DatabaseKind::Sqlite => {
                copy_sqlite(database, &snapshot.sqlite()).await?;
                snapshot.migrations = snapshot.sqlite_migrations().await?;
            }
            DatabaseKind::Postgresql => {
                (snapshot.migrations, snapshot.tables) =
                    postgresql::dump(database, &snapshot.directory).await?;
            }
        }
        Ok(snapshot)
    }

    /// Extracts the copy of a backup into a new directory below `parent`. Checks all its bytes.
    ///
    /// # Errors
    /// Returns `Error::Rejected` if a file is missing or damaged, and an error if the disk fails.
    pub(super) async fn extract(
        store: &std::sync::Arc<FileStore>,
        copy: &DatabaseCopy,
        parent: &Path,
    ) -> Result<Self> {
        let mut snapshot = Self::create(parent, copy.kind).await?;
        snapshot.migrations.clone_from(&copy.migrations);
        snapshot.tables = copy.tables.iter().map(|table| table.dump.clone()).collect();
        if !snapshot.tables.iter().all(TableDump::has_file_name) {
            return Err(rejected(
                "the copy of the database has a malformed table name".to_owned(),
            ));
        }
        let mut files: Vec<_> = copy
            .tables
            .iter()
            .map(|table| (table.dump.file(), table.file))
            .collect();
        files.extend(copy.file.map(|file| (SQLITE.to_owned(), file)));
        if (copy.kind == DatabaseKind::Sqlite) != copy.file.is_some() {
            return Err(rejected("the copy of the database is incomplete".to_owned()));
        }
        let (store, directory) = (std::sync::Arc::clone(store), snapshot.directory.clone());
        let extract = move || {
            for (name, file) in files {
                let extracted = store.extract(file, &directory.join(&name), 0o600);
                extracted
                    .map_err(|error| super::damaged(&format!("the copy of the database ({name})"), error))?;
            }
            Ok(())
        };
        blocking(extract).await?;
        Ok(snapshot)
    }

    async fn create(parent: &Path, kind: DatabaseKind) -> Result<Self> {
        let parent = parent.to_owned();
        let create = move || -> io::Result<(PathBuf, File)> {
            fs::create_dir_all(&parent)?;
            // Another process must not delete the directory before it is locked.
            let creation = File::open(&parent)?;
            creation.lock()?;
            delete_abandoned(&parent)?;
            let directory = parent.join(format!("{PREFIX}{}", uuid::Uuid::new_v4()));
            DirBuilder::new().mode(0o700).create(&directory)?;
            let lock = File::open(&directory)?;
            lock.lock()?;
            Ok((directory, lock))
        };
        let (directory, lock) = blocking(move || create().map_err(Error::internal)).await?;
        Ok(Self {
            directory,
            _lock: lock,
            kind,
            migrations: Vec::new(),
            tables: Vec::new(),
        })
    }

    /// Returns the path of the file of an SQLite database.
    pub(super) fn sqlite(&self) -> PathBuf {
        self.directory.join(SQLITE)
    }

    /// Returns the path of the file of a table of a PostgreSQL database.
    pub(super) fn table(&self, table: &TableDump) -> PathBuf {
        self.directory.join(table.file())
    }

    /// Stores the copy in a backup. Blocks.
    pub(super) fn store(&self, store: &FileStore) -> io::Result<DatabaseCopy> {
        let file = match self.kind {
            DatabaseKind::Sqlite => Some(store.add(&mut File::open(self.sqlite())?)?),
            DatabaseKind::Postgresql => None,
        };
        let mut tables = Vec::new();
        for dump in &self.tables {
            tables.push(postgresql::TableCopy {
                dump: dump.clone(),
                file: store.add(&mut File::open(self.table(dump))?)?,
            });
        }
        Ok(DatabaseCopy {
            kind: self.kind,
            migrations: self.migrations.clone(),
            file,
            tables,
        })
    }

    /// Passes columns of all rows of a table to a receiver, in no particular order. Names must not come from a caller.
    ///
    /// # Errors
    /// Returns `Error::Rejected` if the copy is malformed, and errors of the receiver.
    pub(super) async fn rows(&self, table: &str, columns: &[&str], receive: RowReceiver<'_>) -> Result<()> {
        match self.kind {
            DatabaseKind::Postgresql => {
                let found = self.tables.iter().find(|found| found.name == table);
                let found = found.ok_or_else(|| malformed(format!("it has no table {table}")))?;
                postgresql::read_rows(&self.table(found), found, columns, receive)
                    .await
                    .map(drop)
            }
            DatabaseKind::Sqlite => {
                let columns: Vec<String> = columns
                    .iter()
                    .map(|column| format!("CAST({column} AS TEXT)"))
                    .collect();
                let statement = format!("SELECT {} FROM {table}", columns.join(", "));
                let mut connection = self.open_sqlite().await?;
                let mut rows = sqlx::query(AssertSqlSafe(statement)).fetch(&mut connection);
                while let Some(row) = rows.try_next().await.map_err(malformed)? {
                    let values = (0..columns.len()).map(|index| row.try_get(index));
                    receive(values.collect::<sqlx::Result<_>>().map_err(malformed)?)?;
                }
                Ok(())
            }
        }
    }

    /// Checks the integrity of the copy, and returns the number of checked tables and the problems.
    ///
    /// # Errors
    /// Returns an error if the copy cannot be read.
    pub(super) async fn check(&self) -> Result<(u64, Vec<String>)> {
        match self.kind {
            DatabaseKind::Postgresql => {
                let mut problems = Vec::new();
                for table in &self.tables {
                    let found = postgresql::read_rows(&self.table(table), table, &[], &mut |_| Ok(())).await;
                    match found {
                        Ok(rows) if rows == table.rows => {}
                        Ok(rows) => problems.push(format!(
                            "table {}: it has {rows} instead of {} rows",
                            table.name, table.rows
                        )),
                        Err(error) => problems.push(format!("table {}: {error}", table.name)),
                    }
                }
                Ok((self.tables.len() as u64, problems))
            }
            DatabaseKind::Sqlite => self.check_sqlite().await,
        }
    }

    async fn check_sqlite(&self) -> Result<(u64, Vec<String>)> {
        let mut connection = self.open_sqlite().await?;
        let mut problems = Vec::new();
        let sql = format!("PRAGMA integrity_check({MAX_PROBLEMS})");
        match sqlx::query(AssertSqlSafe(sql)).fetch_all(&mut connection).await {
            Err(error) => return Ok((0, vec![error.to_string()])),
            Ok(rows) => {
                let lines = rows.iter().filter_map(|row| row.try_get::<String, _>(0).ok());
                problems.extend(lines.filter(|line| line != "ok"));
            }
        }
        let broken = sqlx::query("PRAGMA foreign_key_check")
            .fetch_all(&mut connection)
            .await;
        for row in broken.map_err(malformed)?.iter().take(MAX_PROBLEMS) {
            let column = |index: usize| row.try_get::<String, _>(index).unwrap_or_default();
            problems.push(format!(
                "table {}: a row refers to a missing row of {}",
                column(0),
                column(2)
            ));
        }
        let tables = sqlx::query("SELECT count(*) FROM sqlite_master WHERE type = 'table'");
        let tables = tables.fetch_one(&mut connection).await.map_err(malformed)?;
        let tables: i64 = tables.try_get(0).map_err(malformed)?;
        Ok((tables.unsigned_abs(), problems))
    }

    async fn sqlite_migrations(&self) -> Result<Vec<String>> {
        let mut found = Vec::new();
        let mut receive = |row: Vec<Option<String>>| {
            found.extend(row.into_iter().flatten());
            Ok(())
        };
        self.rows(postgresql::MIGRATIONS, &["version"], &mut receive)
            .await?;
        found.sort_unstable();
        Ok(found)
    }

    /// Opens the file without a lock and without a log, because no other process changes it.
    async fn open_sqlite(&self) -> Result<SqliteConnection> {
        let options = SqliteConnectOptions::new()
            .filename(self.sqlite())
            .read_only(true)
            .immutable(true);
        SqliteConnection::connect_with(&options).await.map_err(malformed)
    }
}

/// Returns the kind of a database.
pub(super) fn kind(database: &Database) -> DatabaseKind {
    match database.backend() {
        DatabaseBackend::Sqlite => DatabaseKind::Sqlite,
        _ => DatabaseKind::Postgresql,
    }
}

fn malformed(cause: impl std::fmt::Display) -> Error {
    rejected(format!("the copy of the database is malformed: {cause}"))
}

/// Deletes the directories of killed processes, whose locks the kernel released.
fn delete_abandoned(parent: &Path) -> io::Result<()> {
    for entry in fs::read_dir(parent)? {
        let entry = entry?;
        let is_snapshot = entry
            .file_name()
            .as_encoded_bytes()
            .starts_with(PREFIX.as_bytes());
        if is_snapshot && entry.file_type()?.is_dir() {
            let directory = File::open(entry.path());
            if directory.is_ok_and(|directory| directory.try_lock().is_ok()) {
                // Another process may delete it at the same time.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
    Ok(())
}

async fn copy_sqlite(database: &Database, target: &Path) -> Result<()> {
    let path = target
        .to_str()
        .ok_or_else(|| rejected("the path of the data directory must be valid UTF-8".to_owned()))?;
    // Created beforehand with private permissions, so that it is never readable by others.
    let mut options = OpenOptions::new();
    let created = options.write(true).create_new(true).mode(0o600).open(target);
    created.map_err(Error::internal)?;
    let statement = Statement::from_sql_and_values(DatabaseBackend::Sqlite, "VACUUM INTO ?", [path.into()]);
    database.write().execute_raw(statement).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn directory_of_killed_process_is_deleted_and_that_of_running_one_remains() {
        let parent = tempfile::tempdir().expect("a directory");
        let killed = parent.path().join("backup-killed");
        fs::create_dir(&killed).expect("a directory");
        fs::create_dir(parent.path().join("other")).expect("a directory");
        let running = Snapshot::create(parent.path(), DatabaseKind::Sqlite)
            .await
            .expect("a snapshot");
        let second = Snapshot::create(parent.path(), DatabaseKind::Sqlite)
            .await
            .expect("a snapshot");
        assert!(running.directory.is_dir() && second.directory.is_dir() && !killed.exists());
        drop((running, second));
        assert_eq!(fs::read_dir(parent.path()).expect("entries").count(), 1);
    }
}
