//! The mark of a data directory whose restore is not finished.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The file in the data directory. It is written before anything else, and removed last.
pub const RESTORE_FILE: &str = "restore.json";

/// An unfinished restore.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnfinishedRestore {
    /// ID that the restored instance gets, by which another attempt recognizes its database.
    pub instance_id: String,
    /// Name of the backup.
    pub backup: String,
}

/// State of the target of a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RestoreTarget {
    /// The directory does not exist or is empty.
    Empty,
    /// A restore was interrupted. `None` if it was killed while it wrote its mark.
    Unfinished(Option<UnfinishedRestore>),
    /// The directory has other content.
    Occupied,
}

/// The mark of this process, with its lock.
#[derive(Debug)]
pub struct RestoreMark {
    path: PathBuf,
    _file: File,
}

impl RestoreTarget {
    /// Reads the state of a directory. Creates nothing. Blocks.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be read.
    pub fn read(directory: &Path) -> io::Result<Self> {
        match fs::read(directory.join(RESTORE_FILE)) {
            Ok(text) => return Ok(Self::Unfinished(serde_json::from_slice(&text).ok())),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        match fs::read_dir(directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::Empty),
            Err(error) => Err(error),
            Ok(mut entries) => match entries.next() {
                None => Ok(Self::Empty),
                Some(_) => Ok(Self::Occupied),
            },
        }
    }
}

impl RestoreMark {
    /// Marks a directory, which is created if it does not exist, and deletes the files of an interrupted restore. Returns
    /// `None` if another process restores into the directory. Blocks.
    ///
    /// # Errors
    /// Returns an error if a file operation fails.
    pub fn begin(directory: &Path, restore: &UnfinishedRestore) -> io::Result<Option<Self>> {
        fs::create_dir_all(directory)?;
        fs::set_permissions(directory, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
        let path = directory.join(RESTORE_FILE);
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        file.set_len(0)?;
        file.write_all(&serde_json::to_vec(restore)?)?;
        file.sync_all()?;
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            if entry.file_name() == RESTORE_FILE {
                continue;
            }
            match entry.file_type()?.is_dir() {
                true => fs::remove_dir_all(entry.path())?,
                false => fs::remove_file(entry.path())?,
            }
        }
        File::open(directory)?.sync_all()?;
        Ok(Some(Self { path, _file: file }))
    }

    /// Removes the mark, so that a server can start. Blocks.
    ///
    /// # Errors
    /// Returns an error if a file operation fails.
    pub fn finish(self) -> io::Result<()> {
        fs::remove_file(&self.path)?;
        match self.path.parent() {
            Some(directory) => File::open(directory)?.sync_all(),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mark_replaces_files_of_interrupted_restore_and_excludes_others() {
        let parent = tempfile::tempdir().expect("a directory");
        let directory = parent.path().join("data");
        let state = || RestoreTarget::read(&directory).expect("a state");
        assert_eq!(state(), RestoreTarget::Empty);
        let restore = UnfinishedRestore {
            instance_id: "a".to_owned(),
            backup: "b".to_owned(),
        };
        let mark = RestoreMark::begin(&directory, &restore)
            .expect("a mark")
            .expect("a lock");
        fs::create_dir(directory.join("repositories")).expect("a directory");
        fs::write(directory.join("secret.key"), "x").expect("a file");
        assert_eq!(state(), RestoreTarget::Unfinished(Some(restore.clone())));
        assert!(
            RestoreMark::begin(&directory, &restore)
                .expect("a state")
                .is_none()
        );
        assert!(directory.join("secret.key").exists());
        drop(mark);
        let mark = RestoreMark::begin(&directory, &restore)
            .expect("a mark")
            .expect("a lock");
        assert_eq!(fs::read_dir(&directory).expect("entries").count(), 1);
        mark.finish().expect("the end");
        assert_eq!(state(), RestoreTarget::Empty);
        fs::write(directory.join(RESTORE_FILE), "{").expect("a file");
        assert_eq!(state(), RestoreTarget::Unfinished(None));
        fs::rename(directory.join(RESTORE_FILE), directory.join("notes")).expect("renaming");
        assert_eq!(state(), RestoreTarget::Occupied);
    }
}
