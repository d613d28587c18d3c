//! Export of groups into archives, and import from them (ADR 24).
//!
//! An archive is a gzip-compressed tar file in the layout of the reference service. It contains `VERSION` and
//! `tree/groups/_all.ndjson`, a list of the groups that starts with the exported one. Attributes of a group
//! are in `tree/groups/<id>.json`. Its contents are in `tree/groups/<id>/<relation>.ndjson`, one record per
//! line ([`records`]). IDs are only valid within an archive.

pub mod exports;
pub mod imports;
pub mod jobs;
mod records;

use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};

/// Version of the layout.
const VERSION: &str = "0.2.4";
/// File that contains the version.
const VERSION_FILE: &str = "VERSION";
/// Directory of all other files.
const GROUPS: &str = "tree/groups";
/// The list of all groups.
const ALL_FILE: &str = "tree/groups/_all.ndjson";
/// Maximum groups of an archive.
const MOST_GROUPS: usize = 1_000;
/// Maximum records of an archive.
const MOST_RECORDS: u64 = 200_000;
/// Maximum records of one group. They are imported in one transaction, which blocks other writers.
const MOST_OF_GROUP: u64 = 25_000;
/// Maximum archives that one sweep removes.
const SWEPT: u64 = 1_000;

/// Contents of a group in import order. Each relation may reference earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    Milestones,
    Labels,
    Badges,
    Members,
    Boards,
    Epics,
}

impl Relation {
    const ALL: [Self; 6] = [
        Self::Milestones,
        Self::Labels,
        Self::Badges,
        Self::Members,
        Self::Boards,
        Self::Epics,
    ];

    /// Returns the name of the relation's file.
    fn word(self) -> &'static str {
        match self {
            Self::Milestones => "milestones",
            Self::Labels => "labels",
            Self::Badges => "badges",
            Self::Members => "members",
            Self::Boards => "boards",
            Self::Epics => "epics",
        }
    }

    fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.word() == word)
    }
}

/// Removes expired archives. Returns their number.
///
/// # Errors
/// Returns an error if the storage or the database fails.
pub async fn sweep(backend: &Backend) -> Result<usize> {
    Ok(exports::sweep(backend).await? + imports::sweep(backend).await?)
}

/// Removes the existing archives of a deleted group. The sweep removes the rest.
///
/// # Errors
/// Returns an error if the storage or the database fails.
pub async fn forget(backend: &Backend, group_id: i64) -> Result<()> {
    exports::forget(backend, group_id).await?;
    imports::forget(backend, group_id).await
}

/// Returns an unguessable part of an object key.
fn secret() -> String {
    hex::encode(rand::random::<[u8; 16]>())
}

/// Wraps a failure of the thread that reads or writes an archive.
fn broken(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::internal(error)
}
