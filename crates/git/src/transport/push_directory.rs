//! Directories with the rules of pushes that run, in the system's directory for temporary files.
//!
//! The server that runs a push has a lock on a file of the directory. The system releases the lock when the process ends, so a
//! directory without a lock is abandoned. This also applies if several servers share the directory for temporary files.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

/// Prefix of the names of the directories.
const PREFIX: &str = "holdfast-push-";
/// File that is locked while the push runs.
const LOCK: &str = "lock";
/// Age from which a directory without a lock file is abandoned. A push creates the file at once, but former versions created
/// none. No push takes as long.
const UNLOCKED_ABANDONED_AFTER: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum number of attempts to create a directory, which another process may delete before it is locked.
const MAX_ATTEMPTS: u32 = 10;

/// Directory of one push, removed on drop.
pub(super) struct PushDirectory {
    directory: TempDir,
    _lock: File,
}

impl PushDirectory {
    /// Creates an empty directory. Blocks.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn create() -> io::Result<Self> {
        Self::create_in(&std::env::temp_dir())
    }

    fn create_in(parent: &Path) -> io::Result<Self> {
        for _ in 0..MAX_ATTEMPTS {
            let directory = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
            if let Some(lock) = lock(directory.path(), true)? {
                return Ok(Self {
                    directory,
                    _lock: lock,
                });
            }
        }
        Err(io::Error::other("the directory of a push was deleted"))
    }

    /// Returns the path.
    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// Locks a directory. Returns `None` if another process has locked or deleted it, or if it has no lock file and `create` is
/// false.
fn lock(directory: &Path, create: bool) -> io::Result<Option<File>> {
    let path = directory.join(LOCK);
    let opened = match create {
        true => File::create_new(&path),
        false => File::open(&path),
    };
    let file = match opened {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
        Ok(()) => {}
    }
    // Between opening and locking, another process may have deleted the file.
    match fs::metadata(&path) {
        Ok(found) if found.ino() == file.metadata()?.ino() => Ok(Some(file)),
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(None),
    }
}

/// Deletes the directories of pushes whose servers were killed, and returns their number. Directories of running servers, and
/// of other users of the machine, remain. Blocks.
///
/// # Errors
/// An I/O error if the system's directory for temporary files cannot be read.
pub fn remove_abandoned_push_directories() -> io::Result<usize> {
    remove_abandoned_in(&std::env::temp_dir())
}

fn remove_abandoned_in(parent: &Path) -> io::Result<usize> {
    let mut removed = 0;
    for entry in fs::read_dir(parent)? {
        let entry = entry?;
        if !entry
            .file_name()
            .as_encoded_bytes()
            .starts_with(PREFIX.as_bytes())
        {
            continue;
        }
        match remove_if_abandoned(&entry.path()) {
            Ok(is_removed) => removed += usize::from(is_removed),
            // The push may end, or another server may delete the directory, at the same time.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(%error, "failed to delete the directory of an abandoned push");
            }
        }
    }
    Ok(removed)
}

fn remove_if_abandoned(path: &Path) -> io::Result<bool> {
    // Not of the target of a link: all users of the machine can create names in the parent directory.
    let metadata = fs::symlink_metadata(path)?;
    if !metadata.is_dir() || metadata.uid() != rustix::process::geteuid().as_raw() {
        return Ok(false);
    }
    // Locked until the directory is deleted, so that no process starts to use it.
    let lock = lock(path, false)?;
    let is_old = || {
        let age = SystemTime::now().duration_since(metadata.modified()?);
        Ok::<_, io::Error>(age.is_ok_and(|age| age > UNLOCKED_ABANDONED_AFTER))
    };
    let is_abandoned = lock.is_some() || (!path.join(LOCK).try_exists()? && is_old()?);
    if is_abandoned {
        fs::remove_dir_all(path)?;
    }
    Ok(is_abandoned)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a directory as a process that was killed leaves it, with its modification time.
    fn left_behind(parent: &Path, name: &str, has_lock: bool, modified: SystemTime) {
        let path = parent.join(name);
        fs::create_dir(&path).unwrap();
        fs::write(path.join("refused"), "x").unwrap();
        if has_lock {
            fs::write(path.join(LOCK), "").unwrap();
        }
        File::open(&path).unwrap().set_modified(modified).unwrap();
    }

    fn names(parent: &Path) -> Vec<String> {
        let entries = fs::read_dir(parent).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn only_directories_of_dead_processes_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let running = PushDirectory::create_in(parent.path()).unwrap();
        let now = SystemTime::now();
        let old = now - UNLOCKED_ABANDONED_AFTER - Duration::from_secs(60);
        left_behind(parent.path(), "holdfast-push-dead", true, now);
        left_behind(parent.path(), "holdfast-push-new", false, now);
        left_behind(parent.path(), "holdfast-push-old", false, old);
        left_behind(parent.path(), "elsewhere", true, old);
        left_behind(parent.path(), "other", true, old);
        std::os::unix::fs::symlink(
            parent.path().join("elsewhere"),
            parent.path().join("holdfast-push-link"),
        )
        .unwrap();
        fs::write(parent.path().join("holdfast-push-file"), "").unwrap();
        // An old directory whose push still runs.
        File::open(running.path()).unwrap().set_modified(old).unwrap();
        assert_eq!(remove_abandoned_in(parent.path()).unwrap(), 2);
        let own = running.path().file_name().unwrap().to_str().unwrap().to_owned();
        let mut expected = [
            "elsewhere",
            "holdfast-push-file",
            "holdfast-push-link",
            "holdfast-push-new",
            "other",
            &own,
        ];
        expected.sort_unstable();
        assert_eq!(names(parent.path()), expected);
        assert!(parent.path().join("elsewhere/refused").exists());
        drop(running);
        assert!(!names(parent.path()).contains(&own));
    }

    #[test]
    fn directories_are_created_while_another_process_removes_abandoned_ones() {
        let parent = tempfile::tempdir().unwrap();
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let removed = scope.spawn(|| {
                let mut removed = 0;
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    removed += remove_abandoned_in(parent.path()).unwrap();
                }
                removed
            });
            for _ in 0..500 {
                let created = PushDirectory::create_in(parent.path()).unwrap();
                fs::write(created.path().join("refused"), "x").unwrap();
                assert!(created.path().join(LOCK).exists());
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            removed.join().unwrap();
        });
    }
}
