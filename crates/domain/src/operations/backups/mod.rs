//! Backup and restore of the database, the repositories, the uploaded files and the key. A manifest is
//! written last and marks the backup as complete.
//!
//! The database is copied first, as a snapshot: SQLite by `VACUUM INTO`, PostgreSQL by `COPY` of every table
//! in one transaction, without external programs. Git copies the repositories afterwards. Each row of the
//! snapshot therefore finds its repository, with at least the content of that instant. The server may run
//! during a backup.

mod postgresql;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use chrono::{DateTime, Utc};
use git::{RepositoryId, RepositoryStore};
use sea_orm::sqlx::sqlite::SqliteConnectOptions;
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseBackend, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
};
use serde::{Deserialize, Serialize};
use storage::database::{self, Database};
use storage::entities::{now, projects};

use crate::integrations::object_storage::{self, ObjectStorage};
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::operations::{instance_identity, key_rotation};

/// Version of the layout.
const FORMAT: u32 = 1;
const MANIFEST: &str = "manifest.json";
const KEY: &str = instance_identity::KEY;
const REPOSITORIES: &str = instance_identity::REPOSITORIES;
const OBJECTS: &str = object_storage::DIRECTORY;
const SQLITE: &str = "holdfast.db";
/// Projects read per statement.
const BATCH: u64 = 200;

/// Description of a backup.
#[derive(Debug, Serialize, Deserialize)]
pub struct BackupManifest {
    format: u32,
    /// Version of the server that wrote it.
    pub version: String,
    /// Time at which it was completed.
    pub created_at: DateTime<Utc>,
    /// Number of repositories.
    pub repositories: usize,
    database: DatabaseFormat,
}

/// Format of the database copy.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum DatabaseFormat {
    Sqlite,
    Postgresql(postgresql::DatabaseDump),
}

/// Writes a backup into an empty or new directory.
///
/// # Errors
/// Returns `Error::Rejected` if the directory is not empty or a rotation of the key runs. Returns an error if the database or a disk fails.
/// An incomplete backup has no manifest and [`restore`] rejects it.
pub async fn backup(backend: &Backend, data_dir: &Path, target: &Path) -> Result<BackupManifest> {
    // The key file must have the keys of all values of the snapshot.
    let _lock = key_rotation::lock_for_backup(data_dir).await?;
    create_private_directory(target)?;
    let database = match backend.database.backend() {
        DatabaseBackend::Sqlite => {
            copy_sqlite(&backend.database, &target.join(SQLITE)).await?;
            DatabaseFormat::Sqlite
        }
        _ => DatabaseFormat::Postgresql(postgresql::dump(&backend.database, target).await?),
    };
    let repositories = copy_repositories(backend, &target.join(REPOSITORIES)).await?;
    copy_objects(&backend.objects, target).await?;
    copy_private(&data_dir.join(KEY), &target.join(KEY)).map_err(Error::internal)?;
    let manifest = BackupManifest {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        created_at: now(),
        repositories,
        database,
    };
    let text = serde_json::to_vec_pretty(&manifest).map_err(Error::internal)?;
    write_private(&target.join(MANIFEST), &text).map_err(Error::internal)?;
    Ok(manifest)
}

/// Restores a backup into an empty or new data directory and an empty database of the same kind. The restored instance gets a
/// new ID, so that its parts cannot be mixed with those of the original.
///
/// # Errors
/// Returns `Error::Rejected` if the backup is incomplete or the target is not empty. Returns an error if the
/// database or a disk fails.
pub async fn restore(
    source: &Path,
    data_dir: &Path,
    database_url: &str,
    object_store_url: Option<&str>,
) -> Result<BackupManifest> {
    let text = fs::read(source.join(MANIFEST)).map_err(|error| {
        rejected(format!(
            "{} does not contain a complete backup: {error}",
            source.display()
        ))
    })?;
    let manifest: BackupManifest =
        serde_json::from_slice(&text).map_err(|error| rejected(format!("{MANIFEST}: {error}")))?;
    if manifest.format != FORMAT {
        return Err(rejected(format!(
            "the backup has the unsupported format {}",
            manifest.format
        )));
    }
    create_private_directory(data_dir)?;
    match &manifest.database {
        DatabaseFormat::Sqlite => restore_sqlite(source, database_url)?,
        DatabaseFormat::Postgresql(dump) => postgresql::restore(dump, source, database_url).await?,
    }
    copy_private(&source.join(KEY), &data_dir.join(KEY)).map_err(Error::internal)?;
    let (from, to) = (source.join(REPOSITORIES), data_dir.join(REPOSITORIES));
    let copied = tokio::task::spawn_blocking(move || copy_tree(&from, &to)).await;
    copied.map_err(Error::internal)?.map_err(Error::internal)?;
    // Backups of earlier versions have no objects.
    if source.join(OBJECTS).is_dir() {
        let backup_objects = ObjectStorage::open(None, source)?;
        let storage = ObjectStorage::open(object_store_url, data_dir)?;
        for key in backup_objects.keys(None).await? {
            backup_objects.copy_to(&key, &storage).await?;
        }
    }
    // Last, because a directory without it is refused with this database.
    let options = database::DatabaseOptions {
        must_exist: true,
        ..database::DatabaseOptions::default()
    };
    let database = Database::connect(database_url, &options).await?;
    database.migrate().await?;
    instance_identity::renew(data_dir, database_url, &database).await?;
    database.close().await?;
    Ok(manifest)
}

fn rejected(text: String) -> Error {
    Error::Rejected(text.into())
}

/// Creates a directory that only its owner can access, or checks that an existing one is empty.
fn create_private_directory(directory: &Path) -> Result<()> {
    let create = || -> io::Result<bool> {
        fs::create_dir_all(directory)?;
        // A directory with other content keeps its mode: the path may be wrong.
        if fs::read_dir(directory)?.next().is_some() {
            return Ok(false);
        }
        fs::set_permissions(directory, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
        Ok(true)
    };
    match create() {
        Ok(true) => Ok(()),
        Ok(false) => Err(rejected(format!("{} is not empty", directory.display()))),
        Err(error) => Err(rejected(format!("{}: {error}", directory.display()))),
    }
}

async fn copy_sqlite(database: &Database, target: &Path) -> Result<()> {
    let path = target
        .to_str()
        .ok_or_else(|| rejected("the path of the backup must be valid UTF-8".to_owned()))?;
    // Created beforehand with private permissions, so that it is never readable by others.
    write_private(target, b"").map_err(Error::internal)?;
    let statement =
        sea_orm::Statement::from_sql_and_values(DatabaseBackend::Sqlite, "VACUUM INTO ?", [path.into()]);
    database.write().execute_raw(statement).await?;
    File::open(target)
        .and_then(|file| file.sync_all())
        .map_err(Error::internal)
}

fn restore_sqlite(source: &Path, database_url: &str) -> Result<()> {
    let wrong = || rejected("the backup is for SQLite, but the database URL is not".to_owned());
    if !database_url.starts_with("sqlite:") {
        return Err(wrong());
    }
    let options = SqliteConnectOptions::from_str(database_url).map_err(|_| wrong())?;
    let target = options.get_filename();
    if target.exists() {
        return Err(rejected(format!("{} already exists", target.display())));
    }
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent).map_err(Error::internal)?;
    }
    copy_private(&source.join(SQLITE), target).map_err(Error::internal)
}

/// Copies the repository of every project through Git, which reads a consistent state during concurrent
/// writes.
async fn copy_repositories(backend: &Backend, target: &Path) -> Result<usize> {
    let target = target.to_owned();
    let opened = tokio::task::spawn_blocking(move || RepositoryStore::new(target, 2)).await;
    let copies = opened.map_err(Error::internal)??;
    let (mut after, mut count) = (0, 0);
    loop {
        let ids: Vec<i64> = projects::Entity::find()
            .select_only()
            .column(projects::Column::Id)
            .filter(projects::Column::Id.gt(after))
            .order_by_asc(projects::Column::Id)
            .limit(BATCH)
            .into_tuple()
            .all(backend.database.read())
            .await?;
        let Some(last) = ids.last() else { break };
        after = *last;
        for id in ids {
            match copy_repository(backend, &copies, &RepositoryId::of_project(id)).await {
                // Removed meanwhile, or never created; `doctor` reports which.
                Err(git::Error::RepositoryMissing) => tracing::warn!(project = id, "found no repository"),
                outcome => {
                    outcome?;
                    count += 1;
                }
            }
        }
    }
    Ok(count)
}

/// Copies the uploaded files. A file removed meanwhile may be missing; a restored instance returns 404 for
/// it.
async fn copy_objects(storage: &ObjectStorage, target: &Path) -> Result<()> {
    let copies = ObjectStorage::open(None, target)?;
    for key in storage.keys(None).await? {
        match storage.copy_to(&key, &copies).await {
            Err(error) if error.is_not_found() => {}
            outcome => outcome?,
        }
    }
    Ok(())
}

async fn copy_repository(backend: &Backend, copies: &RepositoryStore, id: &RepositoryId) -> git::Result<()> {
    let source = backend.repositories.repository(id);
    let head = source.default_branch().await?;
    let copy = copies.create(id, &head).await?;
    copy.copy_from(&source).await
}

/// Copies a file so that only its owner can read it.
fn copy_private(from: &Path, to: &Path) -> io::Result<()> {
    let mut source = File::open(from)?;
    let mut target = create_private(to)?;
    io::copy(&mut source, &mut target)?;
    target.sync_all()
}

fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = create_private(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn create_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).open(path)
}

/// Copies a directory recursively, so that only its owner can read it. Backups contain no links, so links are skipped.
fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    let mut pending: Vec<(PathBuf, PathBuf)> = vec![(from.to_owned(), to.to_owned())];
    while let Some((from, to)) = pending.pop() {
        fs::create_dir_all(&to)?;
        for entry in fs::read_dir(&from)? {
            let entry = entry?;
            let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
            if kind.is_dir() {
                pending.push((entry.path(), target));
            } else if kind.is_file() {
                copy_private(&entry.path(), &target)?;
            }
        }
        File::open(&to)?.sync_all()?;
    }
    Ok(())
}

impl From<database::Error> for Error {
    fn from(error: database::Error) -> Self {
        Self::internal(error)
    }
}
