//! One server for each instance on SQLite.

use std::fs::{File, TryLockError};
use std::io::{Read, Write};
use std::path::Path;

use super::Error;
use crate::operations::lock_file;

/// The file in the data directory. The kernel releases its lock when the process dies.
pub const SERVE_LOCK: &str = "serve.lock";

/// The lock of a data directory. Dropping it releases the lock.
#[derive(Debug)]
pub struct ServeLock(#[expect(dead_code, reason = "held for its lock")] File);

/// Locks a data directory for this server; creates the directory. Blocks, but not for another server.
///
/// # Errors
/// [`Error::Served`] when another process serves the directory, [`Error::Io`].
pub fn lock_directory(directory: &Path) -> Result<ServeLock, Error> {
    let path = directory.join(SERVE_LOCK);
    let failed = |cause| Error::Io {
        path: path.clone(),
        cause,
    };
    std::fs::create_dir_all(directory).map_err(failed)?;
    let mut file = lock_file::open(directory, SERVE_LOCK).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {
            file.set_len(0).map_err(failed)?;
            file.write_all(format!("{}\n", std::process::id()).as_bytes())
                .map_err(failed)?;
            Ok(ServeLock(file))
        }
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            // The number is for people: the other process may not have written it yet.
            let _ = file.read_to_string(&mut text);
            let process: Option<u32> = text.trim().parse().ok();
            Err(Error::Served {
                path: directory.to_owned(),
                process: process.map_or("of another server".to_owned(), |id| id.to_string()),
            })
        }
        Err(TryLockError::Error(cause)) => Err(failed(cause)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_directory_is_locked_until_server_stops() {
        let directory = tempfile::tempdir().expect("a directory");
        let serving = lock_directory(directory.path()).expect("the first");
        let error = lock_directory(directory.path())
            .expect_err("the second")
            .to_string();
        assert!(error.contains(&std::process::id().to_string()), "{error}");
        drop(serving);
        lock_directory(directory.path()).expect("the next");
    }
}
