//! The temporary directory of a test server, and the removal of directories that killed servers left.
//!
//! A server locks a file of its directory for as long as it runs. A directory whose file is not locked is abandoned.

use std::fs::{DirEntry, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::Error;

/// Prefix of the names of the directories.
const PREFIX: &str = "holdfast-test-server-";
/// The file that the server locks.
const LOCK: &str = "lock";
/// The name of that file before the server has locked it.
const NEW_LOCK: &str = "lock.new";
/// File system in memory.
const MEMORY: &str = "/dev/shm";
/// Free space from which the file system in memory is used, in bytes.
const MIN_MEMORY: u64 = 512 << 20;
/// Age from which a directory without a lock is abandoned: its server was killed before it created the lock.
const UNLOCKED_AGE: Duration = Duration::from_secs(60);

/// A temporary directory. It is removed when the value is dropped.
#[derive(Debug)]
pub(super) struct WorkDirectory {
    directory: tempfile::TempDir,
    _lock: File,
}

impl WorkDirectory {
    /// Creates a directory below `parent`, or below the default directory.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(super) async fn create(parent: Option<PathBuf>) -> Result<Self, Error> {
        tokio::task::spawn_blocking(move || {
            let parent = parent.unwrap_or_else(default_parent);
            Self::create_in(&parent).map_err(Error::io(parent))
        })
        .await?
    }

    fn create_in(parent: &Path) -> io::Result<Self> {
        let directory = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
        let new = directory.path().join(NEW_LOCK);
        let lock = File::create_new(&new)?;
        lock.lock()?;
        // Renamed, so that no other server finds the file before it is locked.
        std::fs::rename(new, directory.path().join(LOCK))?;
        Ok(Self {
            directory,
            _lock: lock,
        })
    }

    /// Returns the path.
    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Removes the directory. Blocks.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(super) fn remove(self) -> Result<(), Error> {
        let path = self.directory.keep();
        // Twice, because a Git program may still be writing.
        std::fs::remove_dir_all(&path)
            .or_else(|_| std::fs::remove_dir_all(&path))
            .or_else(|error| match error.kind() {
                io::ErrorKind::NotFound => Ok(()),
                _ => Err(error),
            })
            .map_err(Error::io(path))
    }
}

/// Returns the file system in memory if it has room, else the system's directory for temporary files.
fn default_parent() -> PathBuf {
    let free = rustix::fs::statvfs(MEMORY).map(|space| space.f_bavail.saturating_mul(space.f_frsize));
    let is_writable = rustix::fs::access(MEMORY, rustix::fs::Access::WRITE_OK).is_ok();
    match free {
        Ok(free) if free >= MIN_MEMORY && is_writable => PathBuf::from(MEMORY),
        _ => std::env::temp_dir(),
    }
}

/// Removes the abandoned directories of killed servers next to a directory, and in the default directories. Returns their
/// number. Blocks.
pub(super) fn remove_abandoned(directory: &Path) -> usize {
    let default = [PathBuf::from(MEMORY), std::env::temp_dir()];
    let mut parents: Vec<PathBuf> = directory
        .parent()
        .map(Path::to_owned)
        .into_iter()
        .chain(default)
        .collect();
    parents.sort();
    parents.dedup();
    parents.iter().map(|parent| remove_abandoned_in(parent)).sum()
}

fn remove_abandoned_in(parent: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(parent) else {
        return 0;
    };
    let names_server = |entry: &DirEntry| entry.file_name().to_string_lossy().starts_with(PREFIX);
    let directories = entries.filter_map(Result::ok).filter(names_server);
    directories
        .filter(|entry| remove_if_abandoned(&entry.path()))
        .count()
}

/// Removes a directory if its server does not run. Directories of other users are skipped.
fn remove_if_abandoned(directory: &Path) -> bool {
    let owner = rustix::process::geteuid().as_raw();
    let is_own = std::fs::symlink_metadata(directory)
        .is_ok_and(|metadata| metadata.is_dir() && std::os::unix::fs::MetadataExt::uid(&metadata) == owner);
    if !is_own {
        return false;
    }
    let lock = match File::open(directory.join(LOCK)) {
        Ok(lock) => match lock.try_lock() {
            Ok(()) => Some(lock),
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => return false,
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let modified = std::fs::metadata(directory).and_then(|metadata| metadata.modified());
            let age = modified
                .ok()
                .and_then(|time| SystemTime::now().duration_since(time).ok());
            if age.is_none_or(|age| age < UNLOCKED_AGE) {
                return false;
            }
            None
        }
        Err(_) => return false,
    };
    let removed = std::fs::remove_dir_all(directory).is_ok();
    drop(lock);
    removed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_directories_of_killed_servers_are_removed() {
        let parent = tempfile::tempdir().expect("a directory");
        let running = WorkDirectory::create_in(parent.path()).expect("a server");
        let killed = WorkDirectory::create_in(parent.path()).expect("a server");
        let killed_path = killed.directory.keep();
        drop(killed._lock);
        let starting = parent.path().join(format!("{PREFIX}new"));
        std::fs::create_dir(&starting).expect("a directory");
        let other = parent.path().join("other");
        std::fs::create_dir(&other).expect("a directory");
        assert_eq!(remove_abandoned_in(parent.path()), 1);
        assert!(!killed_path.exists());
        assert!(running.path().exists() && starting.exists() && other.exists());
        let path = running.path().to_owned();
        running.remove().expect("removal");
        assert!(!path.exists());
    }
}
