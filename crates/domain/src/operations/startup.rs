//! Presence of processes in a data directory, and recovery when a server starts alone.
//!
//! Every process that updates refs takes a shared lock on one file of the data directory, which all nodes
//! share. A process that gets the exclusive lock is alone, so every pending intent belongs to a killed
//! process.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use storage::database::Database;
use storage::entities::instances;
use storage::jobs;

use crate::code::ref_updates::{self, AbandonedUpdates};
use crate::integrations::object_storage::{self, ObjectStorage};
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};

/// Name of the file in the data directory.
pub(super) const PRESENCE_LOCK: &str = "presence.lock";
/// Time limit for the object that names the instance in an object storage.
const MARK_TIMEOUT: Duration = Duration::from_secs(5);

/// The presence of a process in a data directory; it ends on drop.
#[derive(Debug)]
pub struct NodeRegistration(#[expect(dead_code, reason = "held for its lock")] File);

/// Registers a process in a data directory. If no other process is present, recovers the work of killed
/// servers before others can register.
///
/// # Errors
/// Returns an error if the file cannot be locked, or if a database query or a Git operation fails.
pub async fn register_node(backend: &Backend, data_dir: &Path) -> Result<NodeRegistration> {
    let path = data_dir.join(PRESENCE_LOCK);
    let (file, alone) = blocking(move || try_lock_exclusive(&path)).await?;
    if alone {
        let repositories = backend.repositories.clone();
        let recorded = tokio::task::spawn_blocking(move || repositories.record_lone_start());
        recorded.await.map_err(Error::internal)??;
        let released = jobs::requeue_abandoned(&backend.database).await?;
        if released > 0 {
            tracing::warn!(released, "requeued the jobs of a killed server");
        }
        let finished = ref_updates::recover(backend, AbandonedUpdates::All).await?;
        if finished > 0 {
            tracing::warn!(finished, "recovered ref updates of a killed server");
        }
    }
    blocking(move || {
        file.lock_shared()?;
        Ok(NodeRegistration(file))
    })
    .await
}

/// Returns whether no process is present in a data directory.
///
/// # Errors
/// Returns an error if the file cannot be locked.
pub async fn is_only_node(data_dir: &Path) -> Result<bool> {
    let path: PathBuf = data_dir.join(PRESENCE_LOCK);
    blocking(move || try_lock_exclusive(&path))
        .await
        .map(|(_, alone)| alone)
}

/// Names the instance in an object storage outside of the data directory that names none, so that a restore of another
/// instance refuses the storage. A storage that does not respond is no error, because the next start tries again.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn mark_objects(database: &Database, objects: &ObjectStorage) -> Result<()> {
    let Some(identity) = instances::get(database.read()).await? else {
        return Ok(());
    };
    let own = identity.instance_id;
    let mark = async {
        match objects.instance_id().await? {
            None => objects.set_instance_id(&own).await.map(|()| None),
            Some(found) => Ok::<_, object_storage::Error>(Some(found)),
        }
    };
    match tokio::time::timeout(MARK_TIMEOUT, mark).await {
        Ok(Ok(Some(found))) if found != own => tracing::error!(
            instance = own,
            owner = found,
            "object storage belongs to another instance"
        ),
        Ok(Ok(_)) => {}
        Ok(Err(error)) => tracing::warn!(%error, "failed to name the instance in the object storage"),
        Err(_) => tracing::warn!("failed to name the instance in the object storage in time"),
    }
    Ok(())
}

/// The absence of other processes from a data directory; it ends on drop.
#[derive(Debug)]
pub(super) struct NodeExclusion(#[expect(dead_code, reason = "held for its lock")] File);

/// Excludes other processes from a data directory. Returns `None` if a process is present. Blocks, but not for another
/// process.
///
/// # Errors
/// Returns an error if the file cannot be locked.
pub(super) fn exclude_nodes(data_dir: &Path) -> std::io::Result<Option<NodeExclusion>> {
    let (file, alone) = try_lock_exclusive(&data_dir.join(PRESENCE_LOCK))?;
    Ok(alone.then_some(NodeExclusion(file)))
}

fn try_lock_exclusive(path: &Path) -> std::io::Result<(File, bool)> {
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
    let done = git::run_blocking(work).await;
    done.map_err(Error::internal)?.map_err(Error::internal)
}
