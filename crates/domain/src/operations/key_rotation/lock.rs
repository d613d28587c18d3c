//! The lock by which rotations and backups exclude each other.

use std::fs::{File, TryLockError};
use std::path::Path;

use crate::kernel::error::{Error, Result};
use crate::operations::lock_file;

/// Name of the file in the data directory. The kernel releases its lock when the process dies.
pub(in crate::operations) const KEYS_LOCK: &str = "keys.lock";

/// The lock of the keys of a data directory; it ends on drop.
#[derive(Debug)]
pub struct KeyLock(#[expect(dead_code, reason = "held for its lock")] File);

/// Locks the keys for a rotation.
///
/// # Errors
/// Returns `Error::Rejected` if another rotation or a backup runs.
pub(super) async fn lock_for_rotation(data_dir: &Path) -> Result<KeyLock> {
    let text = "a backup or another rotation of the key is running on this data directory; run the command again when \
                it has finished";
    lock(data_dir, File::try_lock, text).await
}

/// Locks the keys for a backup, which several processes may write at once.
///
/// # Errors
/// Returns `Error::Rejected` if a rotation runs.
pub async fn lock_for_backup(data_dir: &Path) -> Result<KeyLock> {
    let text =
        "a rotation of the key is running on this data directory; run the command again when it has finished";
    lock(data_dir, File::try_lock_shared, text).await
}

async fn lock(
    data_dir: &Path,
    try_lock: fn(&File) -> std::result::Result<(), TryLockError>,
    refusal: &'static str,
) -> Result<KeyLock> {
    let directory = data_dir.to_owned();
    let locked = move || -> std::io::Result<Option<KeyLock>> {
        let file = lock_file::open(&directory, KEYS_LOCK)?;
        match try_lock(&file) {
            Ok(()) => Ok(Some(KeyLock(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    };
    let locked = tokio::task::spawn_blocking(locked)
        .await
        .map_err(Error::internal)?;
    locked
        .map_err(Error::internal)?
        .ok_or_else(|| Error::Rejected(refusal.into()))
}
