//! Recognizes errors that are caused by a full disk, and reports low disk space before.

use std::error::Error as StdError;
use std::io::{self, ErrorKind};
use std::path::Path;

use sea_orm::DbErr;
use storage::database;

use super::Backend;

/// Text of the system in errors of libraries and programs that do not return a code.
const NO_SPACE: &str = "No space left on device";
/// The same for a quota of the user.
const NO_QUOTA: &str = "Disk quota exceeded";

/// Returns whether a full disk caused an error, in this process, in Git or in the database.
pub(super) fn is_cause_of(error: &(dyn StdError + 'static)) -> bool {
    let mut current = Some(error);
    while let Some(error) = current {
        let is_full = if let Some(error) = error.downcast_ref::<io::Error>() {
            matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
        } else if let Some(error) = error.downcast_ref::<DbErr>() {
            database::is_disk_full(error)
        } else if let Some(git::Error::Git2(_) | git::Error::Gix(_) | git::Error::Program { .. }) =
            error.downcast_ref::<git::Error>()
        {
            let text = error.to_string();
            text.contains(NO_SPACE) || text.contains(NO_QUOTA)
        } else {
            false
        };
        if is_full {
            return true;
        }
        current = error.source();
    }
    false
}

/// Space of the file system of a directory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskSpace {
    /// Space that the server can still use.
    pub free: u64,
    /// Total space.
    pub total: u64,
}

/// How much space is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpaceState {
    /// Enough.
    Sufficient,
    /// Less than the instance is configured to keep free.
    Low,
    /// So little that the next write may fail.
    Exhausted,
}

/// Space below which writes are expected to fail, in bytes.
const EXHAUSTED_BYTES: u64 = 1 << 20;

impl DiskSpace {
    /// Reads the space of the file system that contains a directory. Blocks for microseconds, or longer on a network file
    /// system.
    ///
    /// # Errors
    /// If the directory cannot be accessed.
    pub fn of(directory: &Path) -> io::Result<Self> {
        let found = rustix::fs::statvfs(directory)?;
        Ok(Self {
            free: found.f_bavail.saturating_mul(found.f_frsize),
            total: found.f_blocks.saturating_mul(found.f_frsize),
        })
    }

    /// Reads the space of the disk with the data directory, or of the disk with the repositories if it has less.
    ///
    /// # Errors
    /// If a directory cannot be accessed.
    pub async fn of_instance(backend: &Backend) -> io::Result<Self> {
        let data_dir = backend.instance.data_dir.clone();
        let repositories = backend.repositories.directory().to_owned();
        let read = move || {
            let (data, repositories) = (Self::of(&data_dir)?, Self::of(&repositories)?);
            Ok(if repositories.free < data.free {
                repositories
            } else {
                data
            })
        };
        tokio::task::spawn_blocking(read)
            .await
            .map_err(io::Error::other)?
    }

    /// Returns the state, where less than `low_bytes` is low.
    #[must_use]
    pub fn state(self, low_bytes: u64) -> SpaceState {
        match self.free {
            free if free < EXHAUSTED_BYTES => SpaceState::Exhausted,
            free if free < low_bytes => SpaceState::Low,
            _ => SpaceState::Sufficient,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::error::Error;

    fn is_full(error: impl Into<Error>) -> bool {
        matches!(error.into(), Error::StorageFull)
    }

    #[test]
    fn full_disk_is_found_below_other_errors() {
        let full = || io::Error::from(ErrorKind::StorageFull);
        assert!(is_full(Error::internal(full())));
        assert!(is_full(Error::internal(io::Error::other(full()))));
        assert!(is_full(git::Error::Io(full())));
        assert!(is_full(git::Error::Io(ErrorKind::QuotaExceeded.into())));
        assert!(is_full(git::Error::Program {
            command: "merge-tree",
            stderr: "error: unable to write loose object file: No space left on device".to_owned(),
        }));
        assert!(!is_full(git::Error::Io(ErrorKind::PermissionDenied.into())));
        assert!(!is_full(Error::internal(
            "No space left on device in a text of a user"
        )));
    }

    #[test]
    fn space_has_three_states() {
        let state = |free| DiskSpace { free, total: 1 << 40 }.state(1 << 30);
        assert_eq!(state(2 << 30), SpaceState::Sufficient);
        assert_eq!(state(512 << 20), SpaceState::Low);
        assert_eq!(state(0), SpaceState::Exhausted);
        let space = DiskSpace::of(Path::new("/")).expect("the root directory");
        assert!(space.free <= space.total && space.total > 0);
    }
}
