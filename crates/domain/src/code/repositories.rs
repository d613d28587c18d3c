//! Reads of a project's repository: trees, blobs, comparisons, archives and contributors, with
//! helpers for the other repository services.

use std::collections::HashMap;

use crate::code::ref_updates::PreparedUpdate;
use crate::code::repository_access;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
pub use git::{ArchiveFormat, ContributorOrder};

/// Memory of a file in a JSON response, as a multiple of its size: the content twice while Git unpacks it, and then the
/// content, its Base64 text, and the response.
const JSON_FILE_MEMORY_FACTOR: u64 = 4;

/// Maximum length of a ref, and of a path, in the directory name of an archive, in bytes.
const MAX_ARCHIVE_NAME_BYTES: usize = 100;

/// Returns the range of a list for a page: its entries and one more, which shows whether others follow.
#[must_use]
pub fn page_window(page: &PageRequest) -> git::PageWindow {
    git::PageWindow {
        offset: usize::try_from(page.offset()).unwrap_or(usize::MAX),
        limit: usize::try_from(page.limit().saturating_add(1)).unwrap_or(usize::MAX),
    }
}

/// Waits for exclusive write access to a repository.
pub fn lock(
    repository: &git::Repository,
) -> impl Future<Output = Result<git::LockedRepository>> + Send + use<> {
    let repository = repository.clone();
    async move { repository.lock().await.map_err(ref_update_error) }
}

/// A locked repository, and the commit to which a new ref will point.
pub struct LockedRevision {
    /// The repository.
    pub locked: git::LockedRepository,
    /// The commit; none if the revision does not exist.
    commit: Option<git::Oid>,
}

impl PreparedUpdate for LockedRevision {
    fn targets(&self) -> Vec<git::Oid> {
        self.commit.into_iter().collect()
    }
}

/// Waits for exclusive write access to a repository, and resolves a revision.
pub fn lock_revision(
    repository: &git::Repository,
    revision: &str,
) -> impl Future<Output = Result<LockedRevision>> + Send + use<> {
    let (repository, revision) = (repository.clone(), revision.to_owned());
    async move {
        let locked = repository.lock().await.map_err(ref_update_error)?;
        // The operation that creates the ref reports errors of the revision.
        let commit = repository.resolve_commit(&revision).await.ok();
        Ok(LockedRevision { locked, commit })
    }
}

/// Maps the error of a ref update: after a concurrent update the caller may retry.
#[must_use]
pub fn ref_update_error(error: git::Error) -> Error {
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
pub struct TreeFilter {
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
pub async fn list_tree(
    backend: &Backend,
    access: &ProjectAccess,
    filter: TreeFilter,
    page: &PageRequest,
) -> Result<Page<git::TreeEntry>> {
    let repository = repository_access::repository(backend, access)?;
    let commit = resolve(&repository, access, filter.revision.as_deref(), "Tree").await?;
    let path = filter.path.unwrap_or_default();
    let list = repository
        .tree(commit, &path, filter.recursive, page_window(page))
        .await?;
    Ok(Page::new(page, list.entries, list.total as u64))
}

/// Returns a blob with its content.
///
/// # Errors
/// Returns `NotFound` if the ID does not refer to a blob, `FileTooLarge` if it is too large for JSON, and `Overloaded`
/// if too little memory is left.
pub async fn get_blob(backend: &Backend, access: &ProjectAccess, sha: &str) -> Result<git::Blob> {
    let repository = repository_access::repository(backend, access)?;
    let id = blob_id(sha)?;
    let size = repository.blob_size(id).await.map_err(blob_error)?;
    reserve_json_file(backend, &access.caller, size, "get_raw_blob")?;
    repository.blob(id, size).await.map_err(blob_error)
}

/// Reserves memory for a file in a JSON response.
///
/// # Errors
/// Returns [`Error::FileTooLarge`] with the operation to use instead if the file is too large for JSON, and
/// [`Error::Overloaded`] if too little memory is left.
pub(crate) fn reserve_json_file(
    backend: &Backend,
    caller: &Caller,
    size: u64,
    raw_operation: &str,
) -> Result<()> {
    let limit = backend.instance.max_json_file_bytes;
    if size > limit {
        return Err(Error::FileTooLarge(format!(
            "the file has {size} bytes (maximum is {limit}); download it with {raw_operation}"
        ))
        .because_of("max_json_file_bytes"));
    }
    caller.reserve_memory(size.saturating_mul(JSON_FILE_MEMORY_FACTOR))
}

/// Opens a blob for streaming.
///
/// # Errors
/// Returns `NotFound` if the ID does not refer to a blob, and `Rejected` if reading it takes too much memory.
pub async fn open_blob(backend: &Backend, access: &ProjectAccess, sha: &str) -> Result<git::BlobStream> {
    let repository = repository_access::repository(backend, access)?;
    let id = blob_id(sha)?;
    repository.open_blob(id).await.map_err(blob_error)
}

fn blob_id(sha: &str) -> Result<git::Oid> {
    let full = sha.len() == 40 && sha.bytes().all(|byte| byte.is_ascii_hexdigit());
    let id = full.then(|| git::Oid::from_str(sha).ok()).flatten();
    id.ok_or_else(|| Error::not_found("Blob"))
}

fn blob_error(error: git::Error) -> Error {
    match error {
        git::Error::ObjectNotFound => Error::not_found("Blob"),
        other => other.into(),
    }
}

/// An archive that is being created.
pub struct RepositoryArchive {
    /// The file name.
    pub file_name: String,
    /// The content.
    pub stream: git::ByteStream,
}

/// Files of an archive, and its format.
#[derive(Debug, Clone)]
pub struct ArchiveSelection {
    /// Branch, tag or commit; the default branch if absent.
    pub revision: Option<String>,
    /// Path of a directory or file that contains all files of the archive. An empty path is that of the root directory.
    pub path: Option<String>,
    /// Paths of directories and files that are not part of the archive.
    pub excluded_paths: Vec<String>,
    /// The format.
    pub format: ArchiveFormat,
}

/// Starts an archive of the files of a commit.
///
/// # Errors
/// Returns `NotFound` if the revision or the path does not exist, and `Busy` if too many transfers are running.
pub async fn create_archive(
    backend: &Backend,
    access: &ProjectAccess,
    selection: ArchiveSelection,
) -> Result<RepositoryArchive> {
    let repository = repository_access::repository(backend, access)?;
    let revision = selection.revision.as_deref();
    let commit = resolve(&repository, access, revision, "File").await?;
    let revision = revision.filter(|text| !text.is_empty());
    let revision = revision
        .or(access.project.default_branch.as_deref())
        .unwrap_or_default();
    let format = selection.format;
    let path = selection.path.as_deref().unwrap_or_default().trim_matches('/');
    let prefix = archive_name(&access.project.path, revision, &commit.to_string(), path);
    let archive = git::ArchiveRequest {
        commit,
        format,
        prefix: prefix.clone(),
        path: Some(path.to_owned()),
        excluded_paths: selection.excluded_paths,
    };
    let stream = repository.archive(archive).await.map_err(|error| match error {
        git::Error::ObjectNotFound => Error::not_found("File"),
        other => other.into(),
    })?;
    let extension = match format {
        ArchiveFormat::Tar => "tar",
        ArchiveFormat::TarGz => "tar.gz",
        ArchiveFormat::TarBz2 => "tar.bz2",
        ArchiveFormat::Zip => "zip",
    };
    Ok(RepositoryArchive {
        file_name: format!("{prefix}.{extension}"),
        stream,
    })
}

/// Returns `project-branch-commit-path`, without the branch if it equals the commit, and without parts that are empty
/// or too long.
fn archive_name(project: &str, revision: &str, commit: &str, path: &str) -> String {
    let is_shown = |part: &String| !part.is_empty() && part.len() <= MAX_ARCHIVE_NAME_BYTES;
    let branch = Some(revision.replace('/', "-")).filter(|branch| branch != commit && is_shown(branch));
    let path = Some(path.replace('/', "-")).filter(is_shown);
    let parts = [Some(project.to_owned()), branch, Some(commit.to_owned()), path];
    parts.into_iter().flatten().collect::<Vec<_>>().join("-")
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
    let comparison = repository.compare(from, to, straight).await?;
    Ok(Comparison {
        commits: repository.commits(comparison.commits).await?,
        diffs: comparison.diff.entries,
        incomplete: comparison.timeout || comparison.diff.truncated,
        same_ref: comparison.same_ref,
    })
}

/// Lists the authors of the default branch, one for each email address, with the name of most of their
/// commits.
///
/// # Errors
/// Returns `NotFound` if the repository is disabled, and `TimedOut` if counting takes too long.
pub async fn list_contributors(
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
    let mut authors = merge_by_email(counted);
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
fn merge_by_email(counted: Vec<git::Contributor>) -> Vec<git::Contributor> {
    let mut max_commits: HashMap<String, u64> = HashMap::new();
    let mut authors: Vec<git::Contributor> = Vec::new();
    for entry in counted {
        let max = max_commits.entry(entry.email.clone()).or_default();
        match authors.last_mut().filter(|last| last.email == entry.email) {
            Some(last) => {
                if entry.commits > *max {
                    last.name.clone_from(&entry.name);
                }
                last.commits += entry.commits;
            }
            None => authors.push(entry.clone()),
        }
        *max = (*max).max(entry.commits);
    }
    authors
}

/// Returns the best common ancestor of some revisions.
///
/// # Errors
/// Returns a validation error for fewer than two revisions or if a revision does not exist, and `NotFound` without a
/// common ancestor.
pub async fn get_merge_base(
    backend: &Backend,
    access: &ProjectAccess,
    revisions: Vec<String>,
) -> Result<git::Commit> {
    // Not a rule of the contract, because clients compare the text.
    if revisions.len() < 2 {
        return Err(Error::Rejected(
            "400 Bad request - Provide at least 2 refs".into(),
        ));
    }
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
        let merged = merge_by_email(counted);
        assert_eq!(merged, [author("Ada L.", "a@x", 5), author("Bob", "b@x", 1)]);
    }

    #[test]
    fn archive_name_has_project_ref_commit_id_and_path() {
        let id = "570e7b2abdd848b95f2f578043fc23bd6f6fd24d";
        let name = |revision: &str, path: &str| archive_name("engine", revision, id, path);
        assert_eq!(name("feature/x", ""), format!("engine-feature-x-{id}"));
        assert_eq!(name("main", "docs/deep"), format!("engine-main-{id}-docs-deep"));
        assert_eq!(name(id, ""), format!("engine-{id}"));
        let long = "x".repeat(101);
        assert_eq!(name(&long, &long), format!("engine-{id}"));
    }
}
