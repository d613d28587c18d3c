//! Conditions of a move, and the change of the data directory.

use std::fs::File;
use std::io;
use std::path::Path;

use storage::database::{self, Database, DatabaseOptions};
use storage::database_copy::{self, Mark};

use super::{MoveError, at};
use crate::operations::instance_identity::{
    self, DataDirectory, DatabaseKind, DatabaseLock, Error, OpenMode, ServeLock,
};
use crate::operations::lock_file;
use crate::operations::startup::{self, NodeExclusion};

/// A data directory that no other process uses.
pub(super) struct Exclusion {
    pub(super) directory: DataDirectory,
    pub(super) instance_id: String,
    _serving: ServeLock,
    _nodes: NodeExclusion,
    _database: DatabaseLock,
}

impl Exclusion {
    /// Excludes other processes from the data directory until the value is dropped.
    pub(super) async fn acquire(data_dir: &Path, url: &str) -> Result<Self, MoveError> {
        let (path, url) = (data_dir.to_owned(), url.to_owned());
        blocking(data_dir, move || Self::acquire_blocking(&path, &url)).await
    }

    fn acquire_blocking(path: &Path, url: &str) -> Result<Self, MoveError> {
        // Before the locks, which create files.
        DataDirectory::open(path, url, OpenMode::Existing)?;
        let in_use = || MoveError::Instance(Error::InUse(path.to_owned()));
        // Versions without the lock of the database lock these files.
        let serving = instance_identity::lock_directory(path).map_err(|error| match error {
            Error::Served { .. } => in_use(),
            other => other.into(),
        })?;
        let nodes = startup::exclude_nodes(path)
            .map_err(at(path))?
            .ok_or_else(in_use)?;
        let database = instance_identity::lock_database_for_move(path)?;
        // Another process may have moved the database before this one acquired the locks.
        let directory = DataDirectory::open(path, url, OpenMode::Existing)?;
        let instance_id = directory
            .instance_id()
            .ok_or_else(|| MoveError::Unnamed(path.to_owned()))?;
        Ok(Self {
            instance_id: instance_id.to_owned(),
            directory,
            _serving: serving,
            _nodes: nodes,
            _database: database,
        })
    }
}

/// Opens the target. Creates the file of an SQLite database, which belongs to the owner of the data directory.
pub(super) async fn open_target(url: &str, data_dir: &Path) -> Result<Database, MoveError> {
    let options = DatabaseOptions {
        max_connections: 2,
        ..DatabaseOptions::default()
    };
    let opened = Database::connect(url, &options).await;
    let target = opened.map_err(MoveError::Target)?;
    if let Some(file) = database::sqlite_file(url) {
        let directory = data_dir.to_owned();
        blocking(data_dir, move || {
            let opened = File::open(&file).and_then(|open| lock_file::adopt_owner(&open, &directory));
            opened.map_err(at(&file))
        })
        .await?;
    }
    Ok(target)
}

/// Whether rows are missing in the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CopyState {
    /// Rows may be missing. The target has a mark and the current schema.
    Unfinished,
    /// No rows were missing when the mark was removed, right before the data directory would have been changed.
    Complete,
}

/// Marks an empty target as an unfinished copy and creates its schema. Refuses a target with other content.
pub(super) async fn prepare(target: &Database, instance_id: &str) -> Result<CopyState, MoveError> {
    match database_copy::mark(target).await? {
        Some(Mark::Moved { .. }) => return Err(MoveError::FormerOriginal),
        Some(Mark::Unfinished { instance_id: found }) if found != instance_id => {
            return Err(MoveError::ForeignCopy(found));
        }
        Some(Mark::Unfinished { .. }) => {}
        None if target.is_empty().await? => database_copy::begin(target, instance_id).await?,
        None => {
            let recorded = instance_identity::recorded_in(target).await?;
            let is_copy = recorded.is_some_and(|recorded| recorded.instance_id == instance_id);
            return match is_copy {
                true => Ok(CopyState::Complete),
                false => Err(MoveError::NotEmpty),
            };
        }
    }
    match target.check_schema().await {
        Ok(()) => {}
        Err(database::Error::OlderSchema) => {
            // Migrations change rows, so tables with the schema of an older version are copied again.
            database_copy::forget_copied_tables(target).await?;
            target.migrate().await.map_err(MoveError::Target)?;
        }
        Err(error) => return Err(MoveError::Target(error)),
    }
    Ok(CopyState::Unfinished)
}

/// Writes the directory entry of an SQLite database to disk.
pub(super) async fn sync(url: &str) -> Result<(), MoveError> {
    let Some(file) = database::sqlite_file(url) else {
        return Ok(());
    };
    let directory = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => Path::new(".").to_owned(),
    };
    let path = file.clone();
    blocking(&path, move || {
        let synced = || -> io::Result<()> {
            File::open(&file)?.sync_all()?;
            File::open(&directory)?.sync_all()
        };
        synced().map_err(at(&file))
    })
    .await
}

/// Changes the kind of the database in the data directory. From then on, servers accept only the copy.
pub(super) async fn switch(data_dir: &Path, instance_id: &str, to: DatabaseKind) -> Result<(), MoveError> {
    let (path, instance_id) = (data_dir.to_owned(), instance_id.to_owned());
    blocking(data_dir, move || {
        Ok(instance_identity::change_kind(&path, &instance_id, to)?)
    })
    .await
}

async fn blocking<T, F>(path: &Path, work: F) -> Result<T, MoveError>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, MoveError> + Send + 'static,
{
    let done = git::run_blocking(work).await;
    done.unwrap_or_else(|error| Err(at(path)(io::Error::other(error))))
}
