//! Files of a repository, one at a time (specification 4.1).

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use git::{Action, ActionError, Commit, CommitRequest, EntryKind, Oid, Repository, Start, TreePath};

use crate::error::{Error, Result};
use crate::services::Backend;
use crate::services::access::ProjectAccess;
use crate::services::commits::{self, committing, committing::AuthorOverride};
use crate::services::kernel::download::Content;
use crate::services::raw;
use crate::services::repositories::LARGEST_IN_JSON;

/// What is known of a file at a revision.
#[derive(Debug, Clone)]
pub struct File {
    /// The path from the root.
    pub path: String,
    /// The revision as it was asked for.
    pub revision: String,
    /// The commit that the revision names.
    pub commit: Oid,
    /// The last commit that changed the file, seen from there.
    pub last_commit: Oid,
    /// The id of the content.
    pub blob: Oid,
    /// The length of the content in bytes.
    pub size: u64,
    /// The SHA-256 of the content, in hex.
    pub sha256: Arc<str>,
}

impl File {
    /// The last part of the path.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

/// Neighbouring lines that one commit wrote.
#[derive(Debug, Clone)]
pub struct BlamedLines {
    /// The commit.
    pub commit: Arc<Commit>,
    /// The lines without their ends.
    pub lines: Vec<String>,
}

/// A change of one file, and the commit that makes it.
#[derive(Debug, Clone)]
pub struct Write {
    /// The path of the file.
    pub path: String,
    /// The branch to commit to.
    pub branch: String,
    /// The branch to start from, when another.
    pub start_branch: Option<String>,
    /// The message.
    pub message: String,
    /// The author, when not the caller.
    pub author: AuthorOverride,
    /// What to do.
    pub change: Change,
}

/// What to do with a file.
#[derive(Debug, Clone)]
pub enum Change {
    /// Add it.
    Create {
        /// Its content.
        content: Bytes,
    },
    /// Replace its content.
    Update {
        /// The new content.
        content: Bytes,
        /// The last commit known to have changed it.
        last_commit_id: Option<String>,
    },
    /// Remove it.
    Delete {
        /// The last commit known to have changed it.
        last_commit_id: Option<String>,
    },
}

/// The project's repository; a repository that is switched off is forbidden here (facts, 0.3).
fn repository(backend: &Backend, access: &ProjectAccess) -> Result<Repository> {
    if commits::has_repository(access) {
        Ok(commits::open(backend, access))
    } else {
        Err(Error::forbidden())
    }
}

/// Refuses paths that lead out of the repository.
fn check_path(path: &str) -> Result<()> {
    if path.starts_with('/') || path.split('/').any(|component| component == "..") {
        return Err(Error::parameter("file_path should be a valid file path"));
    }
    Ok(())
}

/// A file that was found, of which no more is known yet than what its tree says.
struct Spot {
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
) -> Result<Spot> {
    check_path(path)?;
    let resolve = repository.resolve_commit(revision);
    let question = (access.project.id, revision.to_owned());
    let revisions = &backend.memory.revisions;
    let commit = revisions.recall(&backend.database, question, resolve).await?;
    let located = repository.locate(commit, path).await?;
    let entry = located
        .entry
        .filter(|entry| entry.kind == EntryKind::Blob && entry.path == path)
        .ok_or_else(|| Error::not_found("File"))?;
    Ok(Spot {
        commit,
        blob: entry.id,
        size: located.size,
    })
}

async fn describe(repository: &Repository, spot: &Spot, path: String, revision: String) -> Result<File> {
    let (sha256, last_commit) = tokio::try_join!(
        repository.content_sha256(spot.blob),
        repository.last_commit_of(spot.commit, &path),
    )?;
    Ok(File {
        path,
        revision,
        commit: spot.commit,
        last_commit: last_commit.unwrap_or(spot.commit),
        blob: spot.blob,
        size: spot.size,
        sha256,
    })
}

/// What stands at a path, seen from a revision.
///
/// # Errors
/// 400 for a path that leads out of the repository, 404 when the revision names no commit or the path no file.
pub async fn find(backend: &Backend, access: &ProjectAccess, path: String, revision: String) -> Result<File> {
    let repository = repository(backend, access)?;
    let spot = locate(backend, access, &repository, &path, &revision).await?;
    describe(&repository, &spot, path, revision).await
}

/// The whole content of a file.
///
/// # Errors
/// 400 when it is too large to be sent in one piece.
pub async fn content(backend: &Backend, access: &ProjectAccess, file: &File) -> Result<Bytes> {
    let repository = repository(backend, access)?;
    Ok(repository.blob(file.blob, LARGEST_IN_JSON).await?.data)
}

/// The content of a file to be sent piece by piece, and whether it is text.
///
/// # Errors
/// When the content cannot be read.
pub async fn open(backend: &Backend, access: &ProjectAccess, file: &File) -> Result<(Content, bool)> {
    let repository = repository(backend, access)?;
    raw::content(repository.open_blob(file.blob).await?).await
}

/// Who wrote the lines of a file, from the top, and what is known of the file.
///
/// # Errors
/// As [`find`]; 400 when the file is too large, 503 when it takes too long.
pub async fn blame(
    backend: &Backend,
    access: &ProjectAccess,
    path: String,
    revision: String,
) -> Result<(File, Vec<BlamedLines>)> {
    let repository = repository(backend, access)?;
    let spot = locate(backend, access, &repository, &path, &revision).await?;
    // Blame takes by far the longest, so the rest is found out beside it.
    tokio::try_join!(
        describe(&repository, &spot, path.clone(), revision),
        blamed_lines(&repository, spot.commit, &path),
    )
}

async fn blamed_lines(repository: &Repository, commit: Oid, path: &str) -> Result<Vec<BlamedLines>> {
    let ranges = repository.blame(commit, path).await?;
    let mut ids: Vec<Oid> = ranges.iter().map(|range| range.commit).collect();
    ids.sort_unstable();
    ids.dedup();
    let commits = repository.commits(ids).await?;
    let commits: HashMap<Oid, Arc<Commit>> = commits
        .into_iter()
        .map(|commit| (commit.id, Arc::new(commit)))
        .collect();
    let blamed = ranges.iter().filter_map(|range| {
        Some(BlamedLines {
            commit: Arc::clone(commits.get(&range.commit)?),
            lines: range.lines.clone(),
        })
    });
    Ok(blamed.collect())
}

/// Commits a change of one file, and answers the path where it is found.
///
/// # Errors
/// 400 for everything that keeps the commit from being made, a branch the caller may not push to included.
pub async fn write(backend: &Backend, access: &ProjectAccess, write: Write) -> Result<String> {
    let repository = repository(backend, access)?;
    check_path(&write.path)?;
    if !committing::may_push(backend, access, &write.branch).await? {
        return Err(Error::Refused(committing::NOT_ALLOWED.into()));
    }
    let path = write.path;
    // Where the file can be found again; a path that makes no sense is refused with the commit.
    let normal = TreePath::parse(&path).map_or_else(|_| path.clone(), |path| path.as_str().to_owned());
    let known = |id: Option<String>| id.filter(|id| !id.is_empty());
    let action = match write.change {
        Change::Create { content } => Action::Create { path, content },
        Change::Update {
            content,
            last_commit_id,
        } => Action::Update {
            path,
            content,
            last_commit_id: known(last_commit_id),
        },
        Change::Delete { last_commit_id } => Action::Delete {
            path,
            last_commit_id: known(last_commit_id),
        },
    };
    // In a repository without branches any branch is the first, whatever it was to start from.
    let start = match write.start_branch {
        Some(name) if name != write.branch && access.project.default_branch.is_some() => Start::Branch(name),
        _ => Start::Head,
    };
    let (author, committer) = committing::signatures(access, write.author)?;
    let request = CommitRequest {
        branch: write.branch,
        start,
        force: false,
        allow_empty: false,
        message: write.message,
        author,
        committer,
        actions: vec![action],
    };
    committing::commit(backend, access, &repository, request, refusal, async |_| {
        Ok(normal)
    })
    .await
}

/// As for commits, but that a changed file has a text of its own here.
fn refusal(error: git::Error, branch: &str) -> Error {
    match error {
        git::Error::Action(ActionError::FileChanged(_)) => Error::Refused(
            "You are attempting to update a file that has changed since you started editing it.".into(),
        ),
        other => committing::refusal(other, branch),
    }
}
