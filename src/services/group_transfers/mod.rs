//! Groups that are exported into archives, and made of such (specification 3.8 and 4.14; ADR 24).
//!
//! An archive is a tar file compressed with gzip, in the layout of the reference service: `VERSION`, a list of the groups in
//! `tree/groups/_all.ndjson` that begins with the exported one, the attributes of each in `tree/groups/<id>.json`, and what
//! belongs to it in `tree/groups/<id>/<relation>.ndjson`, a record a line ([`records`]). Numbers in it mean nothing outside of it.

pub mod exports;
pub mod imports;
mod records;

use crate::error::{Error, Result};
use crate::services::Backend;

/// The version of the layout.
const VERSION: &str = "0.2.4";
/// The file that says it.
const VERSION_FILE: &str = "VERSION";
/// The directory of everything else.
const GROUPS: &str = "tree/groups";
/// The list of all groups.
const ALL_FILE: &str = "tree/groups/_all.ndjson";
/// How many groups an archive may have.
const MOST_GROUPS: usize = 1_000;
/// How many records.
const MOST_RECORDS: u64 = 200_000;
/// How many records one group of it may have: they are entered in one transaction, and nobody else writes meanwhile.
const MOST_OF_GROUP: u64 = 25_000;
/// How many archives one sweep removes.
const SWEPT: u64 = 1_000;

/// What belongs to a group, in the order that it is entered in: each names things of those before it.
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

    /// The word that its file is named by.
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

/// Removes what archives left that are needed no more. How many there were is answered.
///
/// # Errors
/// Returns an error if the storage or the database fails.
pub async fn sweep(backend: &Backend) -> Result<usize> {
    Ok(exports::sweep(backend).await? + imports::sweep(backend).await?)
}

/// Removes the archives of a group that goes away, as far as they are there; the rest is swept.
///
/// # Errors
/// Returns an error if the storage or the database fails.
pub async fn forget(backend: &Backend, group_id: i64) -> Result<()> {
    exports::forget(backend, group_id).await?;
    imports::forget(backend, group_id).await
}

/// A part of a key that cannot be guessed.
fn secret() -> String {
    hex::encode(rand::random::<[u8; 16]>())
}

/// A failure of a thread that reads or writes an archive.
fn broken(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::internal(error)
}
