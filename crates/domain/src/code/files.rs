//! Single files of a repository.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use git::{
    ActionError, BranchStart, Commit, CommitRequest, EntryKind, FileAction, Oid, Repository, TreePath,
};

use crate::code::commits::commit::{self, AuthorOverride};
use crate::code::repositories::reserve_json_file;
use crate::code::repository_access;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::blob_content;
use crate::kernel::caller::Caller;
use crate::kernel::download::DownloadContent;
use crate::kernel::error::{Error, Result};

/// Memory of a range of a blame in a response, without its texts, in bytes.
const RANGE_BYTES: usize = 512;
/// Memory of the ID of a parent in a response, in bytes.
const PARENT_BYTES: usize = 64;
/// Memory of a line without its text, in bytes.
const STRING_BYTES: usize = 24;
/// Size of a blame in a response up to which its memory is not reserved, in bytes.
const UNRESERVED_BLAME_BYTES: u64 = 256 << 10;

/// Metadata of a file at a revision.
#[derive(Debug, Clone)]
pub struct FileDetail {
    /// Path from the root of the repository.
    pub path: String,
    /// The revision as requested.
    pub revision: String,
    /// ID of the commit that the revision resolves to.
    pub commit: Oid,
    /// ID of the last commit up to this revision that changed the file.
    pub last_commit: Oid,
    /// ID of the blob.
    pub blob: Oid,
    /// Size of the content, in bytes.
    pub size: u64,
    /// SHA-256 digest of the content, in hex.
    pub sha256: Arc<str>,
}

impl FileDetail {
    /// Returns the last part of the path.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

/// Consecutive lines that were last changed by the same commit.
#[derive(Debug, Clone)]
pub struct BlamedLines {
    /// The commit.
    pub commit: Arc<Commit>,
    /// The lines without line endings.
    pub lines: Vec<String>,
}

/// A change of one file in a new commit.
#[derive(Debug, Clone)]
pub struct NewFileCommit {
    /// Path of the file.
    pub path: String,
    /// Branch to commit to.
    pub branch: String,
    /// Branch to start from, if it differs.
    pub start_branch: Option<String>,
    /// Commit message.
    pub message: String,
    /// Author, if not the caller.
    pub author: AuthorOverride,
    /// The change.
    pub change: FileChange,
}

/// A change of a file.
#[derive(Debug, Clone)]
pub enum FileChange {
    /// Creates the file.
    Create {
        /// Content of the file.
        content: Bytes,
    },
    /// Replaces the content.
    Update {
        /// New content of the file.
        content: Bytes,
        /// ID of the last known commit that changed the file.
        last_commit_id: Option<String>,
    },
    /// Deletes the file.
    Delete {
        /// ID of the last known commit that changed the file.
        last_commit_id: Option<String>,
    },
}

/// Returns the project's repository. A disabled repository returns `Error::Forbidden` here, unlike in other
/// services.
fn repository(backend: &Backend, access: &ProjectAccess) -> Result<Repository> {
    if repository_access::has_repository(access) {
        Ok(repository_access::open(backend, access))
    } else {
        Err(Error::forbidden())
    }
}

/// Rejects paths outside of the repository.
fn check_path(path: &str) -> Result<()> {
    if path.starts_with('/') || path.split('/').any(|component| component == "..") {
        return Err(Error::parameter("file_path should be a valid file path"));
    }
    Ok(())
}

/// A file in a tree, before its metadata is loaded.
struct LocatedFile {
    commit: Oid,
    blob: Oid,
    size: u64,
}

async fn locate(
    backend: &Backend,
    access: &ProjectAccess,
    repository: &Repository,
    path: &str,
    revision: &str,
) -> Result<LocatedFile> {
    check_path(path)?;
    let resolve = repository.resolve_commit(revision);
    let key = (access.project.id, revision.to_owned());
    let revisions = &backend.caches.revisions;
    let commit = revisions.get_or_load(&backend.database, key, resolve).await?;
    let found = repository.locate(commit, path).await?;
    let entry = found
        .entry
        .filter(|entry| entry.kind == EntryKind::Blob && entry.path == path)
        .ok_or_else(|| Error::not_found("File"))?;
    Ok(LocatedFile {
        commit,
        blob: entry.id,
        size: found.size,
    })
}

async fn load_detail(
    repository: &Repository,
    located: &LocatedFile,
    path: String,
    revision: String,
) -> Result<FileDetail> {
    let (sha256, last_commit) = tokio::try_join!(
        repository.content_sha256(located.blob),
        repository.last_commit_of(located.commit, &path),
    )?;
    Ok(FileDetail {
        path,
        revision,
        commit: located.commit,
        last_commit: last_commit.unwrap_or(located.commit),
        blob: located.blob,
        size: located.size,
        sha256,
    })
}

/// Returns the metadata of a file at a revision.
///
/// # Errors
/// Returns `Error::InvalidParameters` if the path leads out of the repository. Returns `Error::NotFound` if
/// the commit or file does not exist. Returns `Error::Forbidden` if the repository is disabled. Returns
/// `Error::Rejected` if reading the file takes too much memory.
pub async fn get(
    backend: &Backend,
    access: &ProjectAccess,
    path: String,
    revision: String,
) -> Result<FileDetail> {
    let repository = repository(backend, access)?;
    let located = locate(backend, access, &repository, &path, &revision).await?;
    load_detail(&repository, &located, path, revision).await
}

/// Returns the complete content of a file.
///
/// # Errors
/// Returns `Error::FileTooLarge` if the content is too large for JSON, and `Error::Overloaded` if too little memory is
/// left.
pub async fn content(backend: &Backend, access: &ProjectAccess, file: &FileDetail) -> Result<Bytes> {
    let repository = repository(backend, access)?;
    reserve_json_file(backend, &access.caller, file.size, "get_raw_file")?;
    Ok(repository.blob(file.blob, file.size).await?.data)
}

/// Opens the content of a file as a stream, and returns whether it is text.
///
/// # Errors
/// Returns an error if the content cannot be read.
pub async fn open(
    backend: &Backend,
    access: &ProjectAccess,
    file: &FileDetail,
) -> Result<(DownloadContent, bool)> {
    let repository = repository(backend, access)?;
    blob_content::content(repository.open_blob(file.blob).await?).await
}

/// Returns the metadata of a file and the commits that last changed its lines, from the top.
///
/// # Errors
/// Fails like [`get`]. Returns `Error::Rejected` if the file is too large, `Error::TimedOut` if the blame takes too
/// long, and `Error::Overloaded` if too little memory is left for the response.
pub async fn blame(
    backend: &Backend,
    access: &ProjectAccess,
    path: String,
    revision: String,
) -> Result<(FileDetail, Vec<BlamedLines>)> {
    let repository = repository(backend, access)?;
    let located = locate(backend, access, &repository, &path, &revision).await?;
    // Blame takes by far the longest, so the metadata is loaded concurrently.
    tokio::try_join!(
        load_detail(&repository, &located, path.clone(), revision),
        blamed_lines(&repository, &access.caller, located.commit, &path),
    )
}

/// Returns the memory of a range in a response, which has a copy of the commit for each range, in bytes.
fn range_response_bytes(commit: &Commit, lines: &[String]) -> u64 {
    let identities = [&commit.author, &commit.committer];
    let names: usize = identities
        .iter()
        .map(|identity| identity.name.len() + identity.email.len())
        .sum();
    let lines: usize = lines.iter().map(|line| STRING_BYTES + line.len()).sum();
    let commit = commit.message.len() + names + commit.parents.len() * PARENT_BYTES;
    (RANGE_BYTES + commit + lines) as u64
}

async fn blamed_lines(
    repository: &Repository,
    caller: &Caller,
    commit: Oid,
    path: &str,
) -> Result<Vec<BlamedLines>> {
    let ranges = repository.blame(commit, path).await?;
    let mut ids: Vec<Oid> = ranges.iter().map(|range| range.commit).collect();
    ids.sort_unstable();
    ids.dedup();
    let commits = repository.commits(ids).await?;
    let commits: HashMap<Oid, Arc<Commit>> = commits
        .into_iter()
        .map(|commit| (commit.id, Arc::new(commit)))
        .collect();
    // A commit with a long message can be that of many ranges, so the response can be much larger than the repository.
    let sizes = ranges
        .iter()
        .filter_map(|range| Some(range_response_bytes(commits.get(&range.commit)?, &range.lines)));
    let size: u64 = sizes.sum();
    if size > UNRESERVED_BLAME_BYTES {
        caller.reserve_memory(size)?;
    }
    let blamed = ranges.iter().filter_map(|range| {
        Some(BlamedLines {
            commit: Arc::clone(commits.get(&range.commit)?),
            lines: range.lines.clone(),
        })
    });
    Ok(blamed.collect())
}

/// Commits a change of one file and returns the normalized path.
///
/// # Errors
/// Returns an error if the commit is rejected. Returns `Error::Rejected` if the caller may not push to the
/// branch.
pub async fn commit_change(backend: &Backend, access: &ProjectAccess, new: NewFileCommit) -> Result<String> {
    let repository = repository(backend, access)?;
    check_path(&new.path)?;
    if !commit::can_push(backend, access, &new.branch).await? {
        return Err(Error::Rejected(commit::PUSH_NOT_ALLOWED.into()));
    }
    let path = new.path;
    // The normalized path for the response. An invalid path is rejected with the commit.
    let normalized = TreePath::parse(&path).map_or_else(|_| path.clone(), |path| path.as_str().to_owned());
    let non_empty = |id: Option<String>| id.filter(|id| !id.is_empty());
    let action = match new.change {
        FileChange::Create { content } => FileAction::Create { path, content },
        FileChange::Update {
            content,
            last_commit_id,
        } => FileAction::Update {
            path,
            content,
            last_commit_id: non_empty(last_commit_id),
        },
        FileChange::Delete { last_commit_id } => FileAction::Delete {
            path,
            last_commit_id: non_empty(last_commit_id),
        },
    };
    // In a repository without branches, any branch is the first one and the start branch is ignored.
    let start = match new.start_branch {
        Some(name) if name != new.branch && access.project.default_branch.is_some() => {
            BranchStart::Branch(name)
        }
        _ => BranchStart::Head,
    };
    let (author, committer) = commit::signatures(access, new.author)?;
    let request = CommitRequest {
        branch: new.branch,
        start,
        force: false,
        allow_empty: false,
        message: new.message,
        author,
        committer,
        actions: vec![action],
    };
    commit::commit(backend, access, &repository, request, commit_error, async |_| {
        Ok(normalized)
    })
    .await
}

/// Maps the error of a rejected commit, with its own text for a changed file.
fn commit_error(error: git::Error, branch: &str) -> Error {
    match error {
        git::Error::Action(ActionError::FileChanged(_)) => Error::Rejected(
            "You are attempting to update a file that has changed since you started editing it.".into(),
        ),
        other => commit::commit_error(other, branch),
    }
}
