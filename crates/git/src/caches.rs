//! Caches of results that depend only on object IDs, so that they never become invalid. One limit on their memory
//! applies to all of them together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use cache::BoundedCache;

use super::diff::DiffStats;
use super::history::CommitSelection;
use super::store::RepositoryId;
use super::{BlameRange, Contributor, Oid, PathEntry};

/// Default of the memory of all caches of a store, in bytes.
pub const DEFAULT_GIT_CACHE_BYTES: u64 = 64 << 20;

/// Identifies one opening of a repository. Results of a repository that was removed or replaced are not found after the
/// next opening.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct OpeningId(u64);

impl OpeningId {
    /// Returns an ID that no other opening in this process has.
    pub(super) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A commit and a path in one opening of a repository.
pub(super) type PathKey = (OpeningId, Oid, String);

/// The caches of a [`super::RepositoryStore`].
pub(super) struct Caches {
    /// Small blobs. The key includes the repository, because readers of one repository must not read blobs of another.
    pub(super) blobs: BoundedCache<(RepositoryId, Oid), Bytes>,
    /// Lines of files with the commits that last changed them, by commit and path.
    pub(super) blame: BoundedCache<(Oid, String), Arc<Vec<BlameRange>>>,
    /// Authors of the ancestors of a commit, and whether their lines were counted.
    pub(super) contributors: BoundedCache<(Oid, bool), Arc<Vec<Contributor>>>,
    /// Newest ancestor of a commit that changed the entry at a path.
    pub(super) last_commits: BoundedCache<PathKey, Option<Oid>>,
    /// Entry at a path of a commit.
    pub(super) located: BoundedCache<PathKey, PathEntry>,
    /// Number of selected commits, up to a maximum.
    pub(super) counts: BoundedCache<(OpeningId, CommitSelection, usize), usize>,
    /// Changed lines of a commit.
    pub(super) stats: BoundedCache<(OpeningId, Oid), DiffStats>,
    /// Whether the first commit is an ancestor of the second.
    pub(super) ancestry: BoundedCache<(Oid, Oid), bool>,
    /// SHA-256 of file contents in hex, by blob ID.
    pub(super) digests: BoundedCache<Oid, Arc<str>>,
}

impl Caches {
    /// Creates empty caches that use at most about `bytes` of memory together.
    pub(super) fn new(bytes: u64) -> Self {
        let share = bytes / 32;
        Self {
            blobs: BoundedCache::new(8 * share, |_, data: &Bytes| data.len()),
            blame: BoundedCache::for_large_entries(
                8 * share,
                |(_, path): &(Oid, String), ranges: &Arc<Vec<BlameRange>>| path.len() + blame_bytes(ranges),
            ),
            contributors: BoundedCache::for_large_entries(
                2 * share,
                |_, contributors: &Arc<Vec<Contributor>>| contributor_bytes(contributors),
            ),
            last_commits: BoundedCache::new(4 * share, |(_, _, path): &PathKey, _| path.len()),
            located: BoundedCache::new(4 * share, |(_, _, path): &PathKey, located: &PathEntry| {
                path.len() + located.entry.as_ref().map_or(0, |entry| entry.path.len())
            }),
            counts: BoundedCache::new(
                2 * share,
                |(_, selection, _): &(OpeningId, CommitSelection, usize), _| {
                    let ids = selection.tips.len() + selection.hidden.len();
                    ids * size_of::<Oid>() + selection.path.as_ref().map_or(0, String::len)
                },
            ),
            stats: BoundedCache::new(2 * share, |_, _| 0),
            ancestry: BoundedCache::new(share, |_, _| 0),
            digests: BoundedCache::new(share, |_, digest: &Arc<str>| digest.len()),
        }
    }
}

/// Returns the memory of ranges in bytes.
fn blame_bytes(ranges: &[BlameRange]) -> usize {
    let lines = ranges
        .iter()
        .flat_map(|range| &range.lines)
        .map(|line| line.len() + size_of::<String>());
    size_of_val(ranges) + lines.sum::<usize>()
}

/// Returns the memory of contributors in bytes.
fn contributor_bytes(contributors: &[Contributor]) -> usize {
    let texts = contributors
        .iter()
        .map(|contributor| contributor.name.len() + contributor.email.len());
    size_of_val(contributors) + texts.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_hold_at_most_their_share_of_the_bytes() {
        let caches = Caches::new(32 * 64 * 1024);
        let id = |number: u32| Oid::hash_object(git2::ObjectType::Blob, &number.to_le_bytes()).unwrap();
        let opening = OpeningId::next();
        for number in 0..2_000 {
            caches
                .last_commits
                .insert((opening, id(number), "a".repeat(1_000)), None);
            caches.ancestry.insert((id(number), id(number + 1)), true);
        }
        let (commits, ancestry) = (caches.last_commits.usage(), caches.ancestry.usage());
        assert!(
            commits.bytes <= 4 * 64 * 1024 && commits.entries > 100,
            "{commits:?}"
        );
        assert!(
            ancestry.bytes <= 64 * 1024 && ancestry.entries > 100,
            "{ancestry:?}"
        );
    }

    #[test]
    fn texts_and_lists_count() {
        let line = "x".repeat(1_000);
        let range = BlameRange {
            commit: Oid::ZERO_SHA1,
            lines: vec![line.clone(), line],
        };
        assert!(blame_bytes(&[range]) > 2_000);
        let contributor = Contributor {
            name: "n".repeat(300),
            email: "e".repeat(300),
            ..Contributor::default()
        };
        assert!(contributor_bytes(&[contributor]) > 600);
    }
}
