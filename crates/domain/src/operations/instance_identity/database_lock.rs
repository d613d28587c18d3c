//! The lock of the database of a data directory: shared by processes that use the database, exclusive for its move.

use std::fs::{File, TryLockError};
use std::path::Path;

use super::Error;
use crate::operations::lock_file;

/// The file in the data directory. The kernel releases its lock when the process dies.
pub const DATABASE_LOCK: &str = "database.lock";

/// The lock of a database. Dropping it releases the lock.
#[derive(Debug)]
pub struct DatabaseLock(#[expect(dead_code, reason = "held for its lock")] File);

/// Locks the database of a data directory in shared mode. Blocks, but not for another process.
///
/// # Errors
/// [`Error::Moving`] if another process moves the database, [`Error::Io`].
pub fn lock_database(directory: &Path) -> Result<DatabaseLock, Error> {
    lock(
        directory,
        File::try_lock_shared,
        Error::Moving(directory.to_owned()),
    )
}

/// Locks the database of a data directory exclusively. Blocks, but not for another process.
///
/// # Errors
/// [`Error::InUse`] if another process uses the database, [`Error::Io`].
pub fn lock_database_for_move(directory: &Path) -> Result<DatabaseLock, Error> {
    lock(directory, File::try_lock, Error::InUse(directory.to_owned()))
}

fn lock(
    directory: &Path,
    try_lock: fn(&File) -> Result<(), TryLockError>,
    refusal: Error,
) -> Result<DatabaseLock, Error> {
    let failed = |cause| Error::Io {
        path: directory.join(DATABASE_LOCK),
        cause,
    };
    let file = lock_file::open(directory, DATABASE_LOCK).map_err(failed)?;
    match try_lock(&file) {
        Ok(()) => Ok(DatabaseLock(file)),
        Err(TryLockError::WouldBlock) => Err(refusal),
        Err(TryLockError::Error(cause)) => Err(failed(cause)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn move_excludes_users_of_database() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path();
        let users = [
            lock_database(path).expect("a user"),
            lock_database(path).expect("a user"),
        ];
        let error = lock_database_for_move(path).expect_err("a user");
        assert!(matches!(error, Error::InUse(_)), "{error}");
        drop(users);
        let moving = lock_database_for_move(path).expect("no user");
        let error = lock_database(path).expect_err("a move");
        assert!(matches!(error, Error::Moving(_)), "{error}");
        drop(moving);
        lock_database(path).expect("no move");
    }
}
