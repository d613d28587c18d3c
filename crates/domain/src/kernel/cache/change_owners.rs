//! Code owners of changes that were determined before.

use std::sync::Arc;

use cache::BoundedCache;
use git::Oid;
use parsers::code_owners::{OwnedPattern, Owner};

/// The owners of the files that a change affects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeOwners {
    /// The lines with owners of these files.
    Known(Vec<OwnedPattern>),
    /// The owners cannot be determined, because the file or the change exceeds a limit. Text for users.
    Unknown(String),
}

/// The commits on which the owners of a change depend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ComparedCommits {
    /// The commit with the file, into which the change would be merged.
    pub target: Oid,
    /// The last commit of the change.
    pub head: Oid,
}

/// Owners of changes by their commits. They depend on nothing else, so entries never become outdated.
pub struct ChangeOwnerCache(BoundedCache<ComparedCommits, Arc<ChangeOwners>>);

impl ChangeOwners {
    /// Returns the owners of a change that affects no file with owners.
    #[must_use]
    pub fn none() -> Self {
        Self::Known(Vec::new())
    }
}

impl ChangeOwnerCache {
    /// Creates an empty cache that uses at most about `bytes` of memory.
    pub(super) fn new(bytes: u64) -> Self {
        Self(BoundedCache::new(bytes, |_, owners: &Arc<ChangeOwners>| {
            text_bytes(owners)
        }))
    }

    /// Returns the owners of a change, if they are known.
    #[must_use]
    pub fn get(&self, commits: &ComparedCommits) -> Option<Arc<ChangeOwners>> {
        self.0.get(commits)
    }

    /// Stores the owners of a change.
    pub fn insert(&self, commits: ComparedCommits, owners: &Arc<ChangeOwners>) {
        self.0.insert(commits, Arc::clone(owners));
    }
}

/// Returns the memory of the texts and lists of owners in bytes.
fn text_bytes(owners: &ChangeOwners) -> usize {
    let owner = |owner: &Owner| match owner {
        Owner::Name(text) | Owner::Email(text) => text.len() + size_of::<Owner>(),
    };
    let pattern = |owned: &OwnedPattern| {
        let section = owned.section.as_ref().map_or(0, String::len);
        let owners: usize = owned.owners.iter().map(owner).sum();
        owned.pattern.len() + section + owners + size_of::<OwnedPattern>()
    };
    match owners {
        ChangeOwners::Known(owned) => owned.iter().map(pattern).sum(),
        ChangeOwners::Unknown(reason) => reason.len(),
    }
}
