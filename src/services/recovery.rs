//! Who else works on a data directory, and what a server does that finds itself alone there.
//!
//! Every process that moves references holds a shared lock on one file of the data directory, which all nodes
//! see. Who gets it exclusively is alone: what others announced and never settled can only be of the killed.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use storage::jobs;

use crate::error::{Error, Result};
use crate::services::{Backend, references};

/// The file in the data directory.
const LOCK: &str = "presence.lock";

/// The sign that a process works on a data directory; dropping it takes the sign down.
#[derive(Debug)]
pub struct Presence(#[expect(dead_code, reason = "held for its lock")] File);

/// Joins those who work on a data directory; whoever finds nobody there finishes what killed servers announced
/// before anybody else comes in.
///
/// # Errors
/// When the file cannot be locked, or whatever the database or a repository reports.
pub async fn arrive(backend: &Backend, data_dir: &Path) -> Result<Presence> {
    let path = data_dir.join(LOCK);
    let (file, alone) = blocking(move || try_alone(&path)).await?;
    if alone {
        let released = jobs::release_abandoned(backend.database.write()).await?;
        if released > 0 {
            tracing::warn!(released, "recovered jobs of a stopped node");
        }
        let finished = references::recover(backend, true).await?;
        if finished > 0 {
            tracing::warn!(finished, "recovered ref updates of a stopped node");
        }
    }
    blocking(move || {
        file.lock_shared()?;
        Ok(Presence(file))
    })
    .await
}

/// Whether nobody works on a data directory at the moment.
///
/// # Errors
/// When the file cannot be locked.
pub async fn is_deserted(data_dir: &Path) -> Result<bool> {
    let path: PathBuf = data_dir.join(LOCK);
    blocking(move || try_alone(&path)).await.map(|(_, alone)| alone)
}

fn try_alone(path: &Path) -> std::io::Result<(File, bool)> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    match file.try_lock() {
        Ok(()) => Ok((file, true)),
        Err(TryLockError::WouldBlock) => Ok((file, false)),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

async fn blocking<T, F>(work: F) -> Result<T>
where
    T: Send + 'static,
    F: FnOnce() -> std::io::Result<T> + Send + 'static,
{
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(Error::internal)?.map_err(Error::internal)
}
