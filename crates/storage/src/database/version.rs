//! Detects writes to a SQLite database without a query.
//!
//! Every commit of any process changes the header of the write-ahead log's index before it returns. The header
//! contains a change counter, the length and the checksum of the log, and its salts. Two copies are at the
//! start of the `-shm` file, and a writer changes one after the other. ADR 17 describes the cache that depends
//! on it.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use chrono::{NaiveDate, Utc};

/// Length of one copy of the header, in bytes.
const HEADER: usize = 48;

/// Version of the database's state on one day. While [`super::Database::version`] returns an equal value, no
/// commit was made and no expiry date passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataVersion {
    day: NaiveDate,
    /// Counter of the files found at the path.
    file: u64,
    /// Counter of explicit invalidations.
    invalidations: u64,
    header: [u8; HEADER],
}

/// The index of a write-ahead log, opened on first use.
#[derive(Debug)]
pub(super) struct LogIndex {
    path: PathBuf,
    opened: RwLock<Opened>,
    invalidations: AtomicU64,
}

#[derive(Debug, Default)]
struct Opened {
    count: u64,
    file: Option<File>,
}

impl LogIndex {
    /// Returns the index for a database file.
    pub(super) fn of(database: &Path) -> Self {
        // SQLite resolves links before it derives the names of the other files.
        let database = database.canonicalize().unwrap_or_else(|_| database.to_owned());
        let mut path = database.into_os_string();
        path.push("-shm");
        Self {
            path: path.into(),
            opened: RwLock::default(),
            invalidations: AtomicU64::default(),
        }
    }

    /// Returns the current version; none if the database is not open in any process or the header is being
    /// written.
    pub(super) fn version(&self) -> Option<DataVersion> {
        let opened = self.opened.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = opened.file.as_ref().filter(|file| is_linked(file)) {
            return self.read(file, opened.count);
        }
        drop(opened);
        self.open()
    }

    /// Opens the current file at the path. A new file always has a new version. SQLite removes the index with
    /// the last connection, and a new index starts with a header of zeros again.
    fn open(&self) -> Option<DataVersion> {
        let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        if !opened.file.as_ref().is_some_and(is_linked) {
            opened.count += 1;
            opened.file = match File::open(&self.path) {
                Ok(file) => Some(file),
                Err(error) => {
                    if error.kind() != ErrorKind::NotFound {
                        tracing::warn!(%error, "failed to read the index of the write-ahead log");
                    }
                    None
                }
            };
        }
        self.read(opened.file.as_ref()?, opened.count)
    }

    /// Changes the version.
    pub(super) fn invalidate(&self) {
        self.invalidations.fetch_add(1, Ordering::SeqCst);
    }

    fn read(&self, file: &File, count: u64) -> Option<DataVersion> {
        let mut copies = [[0; HEADER]; 2];
        file.read_exact_at(copies.as_flattened_mut(), 0).ok()?;
        let [header, second] = copies;
        (header == second).then(|| DataVersion {
            day: Utc::now().date_naive(),
            file: count,
            invalidations: self.invalidations.load(Ordering::SeqCst),
            header,
        })
    }
}

/// Returns whether the file still has a name; SQLite unlinks the index when the last connection closes.
fn is_linked(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.nlink() > 0)
}
