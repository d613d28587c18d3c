//! Reads of a project's repository as a whole: trees, blobs, comparisons, archives and contributors, with
//! helpers for the other repository services.

use std::collections::HashMap;

use crate::code::repository_access;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
pub use git::{ArchiveFormat, ContributorOrder};

/// Maximum size of a blob in a JSON response, in bytes; larger blobs are available as raw bytes.
pub(crate) const LARGEST_IN_JSON: u64 = 128 << 20;

/// Maximum length of a ref in the directory name of an archive, in bytes.
const LONGEST_ARCHIVE_REF: usize = 100;

/// Seconds to wait before a retry if too many archives are being created.
const ARCHIVE_PAUSE: u64 = 30;

/// Returns the range of a list for a page: its entries and one more, which shows whether others follow.
#[must_use]
pub fn window(page: &PageRequest) -> git::PageWindow {
    git::PageWindow {
        offset: usize::try_from(page.offset()).unwrap_or(usize::MAX),
        limit: usize::try_from(page.limit().saturating_add(1)).unwrap_or(usize::MAX),
    }
}

/// Maps the error of a ref update: after a concurrent update the caller may retry.
#[must_use]
pub fn write_failure(error: git::Error) -> Error {
    match error {
        git::Error::StaleReference => git::Error::Locked.into(),
        other => other.into(),
    }
}

/// Resolves a revision, by default the default branch, to a commit; `kind` names the missing resource in the
/// error.
async fn resolve(
    repository: &git::Repository,
    access: &ProjectAccess,
    revision: Option<&str>,
    kind: &'static str,
) -> Result<git::Oid> {
    let missing = || Error::not_found(kind);
    let revision = revision.filter(|text| !text.is_empty());
    let revision = revision
        .or(access.project.default_branch.as_deref())
        .ok_or_else(missing)?;
    repository
        .resolve_commit(revision)
        .await
        .map_err(|error| match error {
            git::Error::RevisionNotFound => missing(),
            other => other.into(),
        })
}

/// Parameters of a tree listing.
#[derive(Debug, Clone, Default)]
pub struct TreeListing {
    /// The revision; the default branch by default.
    pub revision: Option<String>,
    /// The directory; the root by default.
    pub path: Option<String>,
    /// Whether to include subdirectories.
    pub recursive: bool,
}

/// Lists the entries of a directory.
///
/// # Errors
/// Returns `NotFound` if the revision does not exist, and a validation error if there are too many entries.
pub async fn tree(
    backend: &Backend,
    access: &ProjectAccess,
    listing: TreeListing,
    page: &PageRequest,
) -> Result<Page<git::TreeEntry>> {
    let repository = repository_access::repository(backend, access)?;
    let commit = resolve(&repository, access, listing.revision.as_deref(), "Tree").await?;
    let path = listing.path.unwrap_or_default();
    let found = repository
        .tree(commit, &path, listing.recursive, window(page))
        .await?;
    Ok(Page::new(page, found.entries, found.total as u64))
}

/// Returns a blob with its content.
///
/// # Errors
/// Returns `NotFound` if the ID does not refer to a blob, and a validation error if it is too large for this
/// form.
pub async fn blob(backend: &Backend, access: &ProjectAccess, sha: &str) -> Result<git::Blob> {
    let repository = repository_access::repository(backend, access)?;
    let id = blob_id(sha)?;
    repository.blob(id, LARGEST_IN_JSON).await.map_err(no_blob)
}

/// Opens a blob for streaming.
///
/// # Errors
/// Returns `NotFound` if the ID does not refer to a blob.
pub async fn open_blob(backend: &Backend, access: &ProjectAccess, sha: &str) -> Result<git::BlobStream> {
    let repository = repository_access::repository(backend, access)?;
    let id = blob_id(sha)?;
    repository.open_blob(id).await.map_err(no_blob)
}

fn blob_id(sha: &str) -> Result<git::Oid> {
    let full = sha.len() == 40 && sha.bytes().all(|byte| byte.is_ascii_hexdigit());
    let id = full.then(|| git::Oid::from_str(sha).ok()).flatten();
    id.ok_or_else(|| Error::not_found("Blob"))
}

fn no_blob(error: git::Error) -> Error {
    match error {
        git::Error::ObjectNotFound => Error::not_found("Blob"),
        other => other.into(),
    }
}

/// An archive that is being created.
pub struct Archive {
    /// The file name.
    pub file_name: String,
    /// The content.
    pub stream: git::ByteStream,
}

/// Starts an archive of the files of a commit.
///
/// # Errors
/// Returns `NotFound` if the revision does not exist, and `RateLimited` if too many archives are being
/// created.
pub async fn archive(
    backend: &Backend,
    access: &ProjectAccess,
    revision: Option<&str>,
    format: ArchiveFormat,
) -> Result<Archive> {
    let repository = repository_access::repository(backend, access)?;
    let commit = resolve(&repository, access, revision, "File").await?;
    let named = revision.filter(|text| !text.is_empty());
    let named = named
        .or(access.project.default_branch.as_deref())
        .unwrap_or_default();
    let prefix = archive_name(&access.project.path, named, &commit.to_string());
    let archive = git::ArchiveRequest {
        commit,
        format,
        prefix: prefix.clone(),
        path: None,
    };
    let stream = repository.archive(archive).await.map_err(|error| match error {
        git::Error::Busy(_) => Error::RateLimited(ARCHIVE_PAUSE),
        other => other.into(),
    })?;
    let extension = match format {
        ArchiveFormat::Tar => "tar",
        ArchiveFormat::TarGz => "tar.gz",
        ArchiveFormat::Zip => "zip",
    };
    Ok(Archive {
        file_name: format!("{prefix}.{extension}"),
        stream,
    })
}

/// Returns `project-branch-commit`, without the branch if it equals the commit or is too long.
fn archive_name(project: &str, revision: &str, commit: &str) -> String {
    let revision = revision.replace('/', "-");
    if revision == commit || revision.is_empty() || revision.len() > LONGEST_ARCHIVE_REF {
        format!("{project}-{commit}")
    } else {
        format!("{project}-{revision}-{commit}")
    }
}

/// The difference between two revisions.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// Commits that are only in the second revision, oldest first.
    pub commits: Vec<git::Commit>,
    /// The changed files.
    pub diffs: Vec<git::DiffEntry>,
    /// Whether changes are missing, because there were too many or the diff timed out.
    pub incomplete: bool,
    /// Whether both revisions are the same commit.
    pub same_ref: bool,
}

/// Compares two revisions, either directly if `straight`, or from their merge base.
///
/// # Errors
/// Returns `NotFound` if either revision does not exist.
pub async fn compare(
    backend: &Backend,
    access: &ProjectAccess,
    from: &str,
    to: &str,
    straight: bool,
) -> Result<Comparison> {
    let repository = repository_access::repository(backend, access)?;
    let from = repository.resolve_commit(from).await?;
    let to = repository.resolve_commit(to).await?;
    let found = repository.compare(from, to, straight).await?;
    Ok(Comparison {
        commits: repository.commits(found.commits).await?,
        diffs: found.diff.entries,
        incomplete: found.timeout || found.diff.truncated,
        same_ref: found.same_ref,
    })
}

/// Lists the authors of the default branch, one for each email address, with the name of most of their
/// commits.
///
/// # Errors
/// Returns `NotFound` if the repository is disabled, and `TimedOut` if counting takes too long.
pub async fn contributors(
    backend: &Backend,
    access: &ProjectAccess,
    order: ContributorOrder,
    descending: bool,
    page: &PageRequest,
) -> Result<Page<git::Contributor>> {
    let repository = repository_access::repository(backend, access)?;
    let Some(name) = access.project.default_branch.as_deref() else {
        return Ok(Page::from_all(page, Vec::new()));
    };
    let tip = match repository.branch(name).await {
        Ok(branch) => branch.commit,
        Err(git::Error::BranchNotFound) => return Ok(Page::from_all(page, Vec::new())),
        Err(error) => return Err(error.into()),
    };
    let counted = repository
        .contributors(tip, false, ContributorOrder::Email)
        .await?;
    let mut authors = one_each_address(counted);
    match order {
        ContributorOrder::Email => {}
        ContributorOrder::Name => authors.sort_by(|a, b| a.name.cmp(&b.name)),
        ContributorOrder::Commits => authors.sort_by_key(|author| author.commits),
    }
    if descending {
        authors.reverse();
    }
    Ok(Page::from_all(page, authors))
}

/// Merges adjacent entries with the same address under their most frequent name.
fn one_each_address(counted: Vec<git::Contributor>) -> Vec<git::Contributor> {
    let mut most: HashMap<String, u64> = HashMap::new();
    let mut authors: Vec<git::Contributor> = Vec::new();
    for entry in counted {
        let best = most.entry(entry.email.clone()).or_default();
        match authors.last_mut().filter(|last| last.email == entry.email) {
            Some(last) => {
                if entry.commits > *best {
                    last.name.clone_from(&entry.name);
                }
                last.commits += entry.commits;
            }
            None => authors.push(entry.clone()),
        }
        *best = (*best).max(entry.commits);
    }
    authors
}

/// Returns the best common ancestor of some revisions.
///
/// # Errors
/// Returns a validation error if a revision does not exist, and `NotFound` without a common ancestor.
pub async fn merge_base(
    backend: &Backend,
    access: &ProjectAccess,
    revisions: Vec<String>,
) -> Result<git::Commit> {
    let repository = repository_access::repository(backend, access)?;
    let mut ids = Vec::with_capacity(revisions.len());
    for revision in revisions {
        let id = repository.resolve_commit(&revision).await;
        ids.push(id.map_err(|error| match error {
            git::Error::RevisionNotFound => Error::Rejected(format!("Could not find ref: {revision}").into()),
            other => other.into(),
        })?);
    }
    let base = repository.merge_base(ids).await?;
    let base = base.ok_or_else(|| Error::not_found("Merge Base"))?;
    Ok(repository.commit(base).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn author(name: &str, email: &str, commits: u64) -> git::Contributor {
        git::Contributor {
            name: name.to_owned(),
            email: email.to_owned(),
            commits,
            ..git::Contributor::default()
        }
    }

    #[test]
    fn contributors_with_same_email_are_merged_under_most_used_name() {
        let counted = vec![
            author("Ada", "a@x", 2),
            author("Ada L.", "a@x", 3),
            author("Bob", "b@x", 1),
        ];
        let joined = one_each_address(counted);
        assert_eq!(joined, [author("Ada L.", "a@x", 5), author("Bob", "b@x", 1)]);
    }

    #[test]
    fn archive_name_has_project_ref_and_commit_id() {
        let id = "570e7b2abdd848b95f2f578043fc23bd6f6fd24d";
        assert_eq!(
            archive_name("engine", "feature/x", id),
            format!("engine-feature-x-{id}")
        );
        assert_eq!(archive_name("engine", id, id), format!("engine-{id}"));
        assert_eq!(
            archive_name("engine", &"x".repeat(101), id),
            format!("engine-{id}")
        );
    }
}
