//! Versions of the database's state, and the detection of writes to a SQLite database without a query.
//!
//! Every commit of any process changes the header of the write-ahead log's index before it returns. The header
//! contains a change counter, the length and the checksum of the log, and its salts. Two copies are at the
//! start of the `-shm` file, and a writer changes one after the other. ADR 50 describes the caches that depend
//! on it. [`super::snapshot_probe`] detects writes to PostgreSQL.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use chrono::NaiveDate;

use crate::clock;

/// Length of one copy of the header, in bytes.
const HEADER: usize = 48;

/// Version of the database's state on one day. While the database has an equal version, no commit was made and no
/// expiry date passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DataVersion {
    day: NaiveDate,
    /// Counter of explicit invalidations.
    invalidations: u64,
    state: DatabaseState,
}

impl DataVersion {
    /// Returns the version of a state that was read today, after this number of invalidations.
    pub(super) fn new(invalidations: u64, state: DatabaseState) -> Self {
        Self {
            day: clock::now().date_naive(),
            invalidations,
            state,
        }
    }
}

/// Identity of a committed state of the database, as far as this process needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum DatabaseState {
    /// SQLite: counter of the files found at the path, and the header of the log's index.
    LogIndex(u64, [u8; HEADER]),
    /// PostgreSQL: number of the snapshot in this process.
    Snapshot(u64),
}

/// The index of a write-ahead log, opened on first use.
#[derive(Debug)]
pub(super) struct LogIndex {
    path: PathBuf,
    opened: RwLock<Opened>,
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
        }
    }

    /// Returns the current state; none if the database is not open in any process or the header is being
    /// written.
    pub(super) fn state(&self) -> Option<DatabaseState> {
        let opened = self.opened.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = opened.file.as_ref().filter(|file| is_linked(file)) {
            return Self::read(file, opened.count);
        }
        drop(opened);
        self.open()
    }

    /// Opens the current file at the path. A new file always has a new state. SQLite removes the index with
    /// the last connection, and a new index starts with a header of zeros again.
    fn open(&self) -> Option<DatabaseState> {
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
        Self::read(opened.file.as_ref()?, opened.count)
    }

    fn read(file: &File, count: u64) -> Option<DatabaseState> {
        let mut copies = [[0; HEADER]; 2];
        file.read_exact_at(copies.as_flattened_mut(), 0).ok()?;
        let [header, second] = copies;
        (header == second).then_some(DatabaseState::LogIndex(count, header))
    }
}

/// Returns whether the file still has a name; SQLite unlinks the index when the last connection closes.
fn is_linked(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.nlink() > 0)
}
