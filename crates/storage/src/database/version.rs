//! Whether anything was written to a SQLite database since somebody last looked, without asking SQLite.
//!
//! Every commit, by whichever process, changes the header of the write-ahead log's index before it returns:
//! a counter of changes, the length and the checksum of the log, and the log's salts. The header stands twice
//! at the start of the `-shm` file, and a writer changes one copy after the other. ADR 17 says what rests on it.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use chrono::{NaiveDate, Utc};

/// The length of one copy of the header, in bytes.
const HEADER: usize = 48;

/// A state of the database, and the day: as long as [`super::Database::version`] answers an equal one, nothing
/// was written, and nothing has ended with its last day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    day: NaiveDate,
    /// Which of the files that stood at the path in turn.
    file: u64,
    /// How often all was to be forgotten.
    forgotten: u64,
    header: [u8; HEADER],
}

/// The index of a write-ahead log, opened when it is first asked.
#[derive(Debug)]
pub(super) struct LogIndex {
    path: PathBuf,
    opened: RwLock<Opened>,
    forgotten: AtomicU64,
}

#[derive(Debug, Default)]
struct Opened {
    count: u64,
    file: Option<File>,
}

impl LogIndex {
    /// The index that belongs to the database in a file.
    pub(super) fn of(database: &Path) -> Self {
        // SQLite follows links before it names the files beside the database.
        let database = database.canonicalize().unwrap_or_else(|_| database.to_owned());
        let mut path = database.into_os_string();
        path.push("-shm");
        Self {
            path: path.into(),
            opened: RwLock::default(),
            forgotten: AtomicU64::default(),
        }
    }

    /// The state of the database now; none while nobody has it open, or while somebody is writing the header.
    pub(super) fn version(&self) -> Option<Version> {
        let opened = self.opened.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = opened.file.as_ref().filter(|file| is_linked(file)) {
            return self.read(file, opened.count);
        }
        drop(opened);
        self.open()
    }

    /// Opens the file that stands at the path now. Another file is another version, whatever it holds: SQLite
    /// removes the index with the last connection, and a new one begins with a header of zeros again.
    fn open(&self) -> Option<Version> {
        let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        if !opened.file.as_ref().is_some_and(is_linked) {
            opened.count += 1;
            opened.file = match File::open(&self.path) {
                Ok(file) => Some(file),
                Err(error) => {
                    if error.kind() != ErrorKind::NotFound {
                        tracing::warn!(%error, "failed to read the index of the database log");
                    }
                    None
                }
            };
        }
        self.read(opened.file.as_ref()?, opened.count)
    }

    /// Makes the next version another one.
    pub(super) fn forget(&self) {
        self.forgotten.fetch_add(1, Ordering::SeqCst);
    }

    fn read(&self, file: &File, count: u64) -> Option<Version> {
        let mut copies = [[0; HEADER]; 2];
        file.read_exact_at(copies.as_flattened_mut(), 0).ok()?;
        let [header, second] = copies;
        (header == second).then(|| Version {
            day: Utc::now().date_naive(),
            file: count,
            forgotten: self.forgotten.load(Ordering::SeqCst),
            header,
        })
    }
}

/// Whether the file still has a name; SQLite unlinks the index when the last connection closes.
fn is_linked(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.nlink() > 0)
}
