//! Code owners: users and groups that a file of a branch names for paths (ADR 68).

mod push_check;

use std::collections::HashSet;

use git::{NewObjects, Oid, Repository};
use parsers::code_owners::{CodeOwners, CodeOwnersError, MAX_BYTES, OwnedPattern, Owner, PathSegments};

pub use push_check::find_violation;

use crate::kernel::Backend;
use crate::kernel::cache::ChangeOwners;
use crate::kernel::error::{Error, Result};
use crate::kernel::policy::InstancePlan;

/// Paths of the file; the first one that exists is used.
const PATHS: [&str; 3] = ["CODEOWNERS", "docs/CODEOWNERS", ".gitlab/CODEOWNERS"];
/// Type bits of a file mode, and their value for regular files.
const TYPE_BITS: u32 = 0o170_000;
const REGULAR_FILE: u32 = 0o100_000;
/// Maximum number of changed files whose owners are determined.
const MAX_PATHS: usize = 10_000;
/// Maximum number of lines that select the owners of a change.
const MAX_OWNED_PATTERNS: usize = 200;
/// Maximum number of owners of a change.
const MAX_OWNERS: usize = 500;

/// Returns whether the plan includes code owners, as it includes approval rules.
#[must_use]
pub fn is_available(backend: &Backend) -> bool {
    backend.instance.plan >= InstancePlan::Starter
}

/// A file with code owners.
#[derive(PartialEq, Eq)]
pub struct OwnersFile(Content);

#[derive(PartialEq, Eq)]
enum Content {
    TooLarge,
    Found(Vec<u8>),
}

/// Returns the file of a commit, if it has one. Symbolic links, directories and submodules are ignored.
///
/// # Errors
/// Returns an error if the repository fails.
pub async fn find_file(repository: &Repository, commit: Oid) -> Result<Option<OwnersFile>> {
    for path in PATHS {
        let located = repository.locate(commit, path).await?;
        let Some(entry) = located
            .entry
            .filter(|entry| entry.mode & TYPE_BITS == REGULAR_FILE)
        else {
            continue;
        };
        let content = match located.size > MAX_BYTES as u64 {
            true => Content::TooLarge,
            false => Content::Found(repository.blob(entry.id, MAX_BYTES as u64).await?.data.to_vec()),
        };
        return Ok(Some(OwnersFile(content)));
    }
    Ok(None)
}

/// Returns whether two commits have the same file, or both have none.
///
/// # Errors
/// Returns an error if the repository fails.
pub async fn have_same_file(repository: &Repository, one: Oid, other: Oid) -> Result<bool> {
    Ok(find_file(repository, one).await? == find_file(repository, other).await?)
}

/// Returns the owners of the files that differ between two commits.
///
/// # Errors
/// Returns an error if the repository fails.
pub async fn of_change(
    file: OwnersFile,
    objects: &NewObjects,
    (old, new): (Oid, Oid),
) -> Result<ChangeOwners> {
    let OwnersFile(Content::Found(file)) = file else {
        return Ok(unknown(&CodeOwnersError::TooLarge));
    };
    let paths = match objects.changed_paths(old, new, MAX_PATHS).await {
        Err(git::Error::LimitExceeded(reason)) => return Ok(unknown(&reason)),
        paths => paths?,
    };
    // Parsing and matching can take a fraction of a second.
    let owned = tokio::task::spawn_blocking(move || owned_patterns(&file, &paths));
    Ok(match owned.await.map_err(Error::internal)? {
        Err(error) => unknown(&error),
        Ok(owned) if is_too_many(&owned) => unknown(&"the change has too many owners"),
        Ok(owned) => ChangeOwners::Known(owned),
    })
}

fn owned_patterns(file: &[u8], paths: &[String]) -> std::result::Result<Vec<OwnedPattern>, CodeOwnersError> {
    let owners = CodeOwners::parse(file)?;
    let paths: Vec<PathSegments> = paths.iter().map(|path| PathSegments::new(path)).collect();
    owners.owned_patterns(&paths)
}

fn is_too_many(owned: &[OwnedPattern]) -> bool {
    let owners: HashSet<&Owner> = owned.iter().flat_map(|owned| &owned.owners).collect();
    owned.len() > MAX_OWNED_PATTERNS || owners.len() > MAX_OWNERS
}

fn unknown(reason: &impl ToString) -> ChangeOwners {
    ChangeOwners::Unknown(reason.to_string())
}
