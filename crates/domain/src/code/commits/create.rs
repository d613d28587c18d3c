//! Commits with several file actions.

use bytes::Bytes;
use git::{CommitRequest, CommitResult, FileAction};

use super::listing;
use crate::code::commits::commit::{self, AuthorOverride};
use crate::code::commits::start_point::{self, StartPoint};
use crate::code::repository_access;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};

/// Attributes of a new commit.
#[derive(Debug, Clone)]
pub struct NewCommit {
    /// Branch that the commit is added to.
    pub branch: String,
    /// Commit message.
    pub message: String,
    /// Start point.
    pub start: StartPoint,
    /// Whether an existing branch is reset to another start point.
    pub force: bool,
    /// Author, if not the caller.
    pub author: AuthorOverride,
    /// File actions, in order.
    pub actions: Vec<NewFileAction>,
    /// Whether the response includes line statistics.
    pub with_stats: bool,
}

/// Kind of a file action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileActionKind {
    /// Adds a file.
    Create,
    /// Replaces a file's content.
    Update,
    /// Renames a file.
    Move,
    /// Removes a file.
    Delete,
    /// Sets a file's execute bit.
    Chmod,
}

/// A file action as sent. Required fields depend on its kind.
#[derive(Debug, Clone)]
pub struct NewFileAction {
    /// The kind.
    pub kind: FileActionKind,
    /// The path.
    pub path: String,
    /// Previous path, for a move.
    pub previous_path: Option<String>,
    /// Decoded content.
    pub content: Option<Bytes>,
    /// ID of the last known commit that changed the file.
    pub last_commit_id: Option<String>,
    /// Execute bit, for `Chmod`.
    pub executable: Option<bool>,
}

/// Creates a commit.
///
/// # Errors
/// Returns `Error::Forbidden` if the caller may not push to the branch or the start project is not in the
/// fork network. Returns `Error::NotFound` if the start project does not exist. Returns `Error::Rejected` or
/// `Error::InvalidParameters` if the commit is invalid.
pub async fn create(
    backend: &Backend,
    access: &ProjectAccess,
    new: NewCommit,
) -> Result<listing::CommitDetail> {
    let repository = repository_access::repository(backend, access)?;
    let actions = check_actions(new.actions)?;
    start_point::check_exclusive(&new.start)?;
    if !commit::can_push(backend, access, &new.branch).await? {
        return Err(Error::forbidden_because(commit::PUSH_NOT_ALLOWED));
    }
    if new.message.trim().is_empty() {
        return Err(Error::Rejected("You must provide a commit message".into()));
    }
    let start = start_point::find(backend, access, &repository, &new.branch, new.start).await?;
    let (author, committer) = commit::signatures(access, new.author)?;
    let request = CommitRequest {
        branch: new.branch,
        start,
        force: new.force,
        // A request without actions asks for an empty commit. Actions without an effect are an error.
        allow_empty: actions.is_empty(),
        message: new.message,
        author,
        committer,
        actions,
    };
    let (reader, with_stats) = (repository.clone(), new.with_stats);
    let read =
        async move |result: CommitResult| listing::load_detail(&reader, result.commit, with_stats).await;
    commit::commit(backend, access, &repository, request, commit::commit_error, read).await
}

/// Converts the actions, and checks that each has the fields that its kind requires.
fn check_actions(actions: Vec<NewFileAction>) -> Result<Vec<FileAction>> {
    let mut errors = Vec::new();
    let mut content_missing = false;
    let mut checked = Vec::with_capacity(actions.len());
    for (index, action) in actions.into_iter().enumerate() {
        let NewFileAction {
            kind,
            path,
            previous_path,
            content,
            last_commit_id,
            executable,
        } = action;
        let last_commit_id = last_commit_id.filter(|id| !id.is_empty());
        let mut missing = |name: &str| errors.push(format!("actions[{index}][{name}] is missing"));
        match (kind, content) {
            (FileActionKind::Create, Some(content)) => checked.push(FileAction::Create { path, content }),
            (FileActionKind::Create, None) => content_missing = true,
            (FileActionKind::Update, Some(content)) => {
                checked.push(FileAction::Update {
                    path,
                    content,
                    last_commit_id,
                });
            }
            (FileActionKind::Update, None) => missing("content"),
            (FileActionKind::Move, content) => match previous_path {
                Some(previous_path) => {
                    checked.push(FileAction::Move {
                        path,
                        previous_path,
                        content,
                        last_commit_id,
                    });
                }
                None => missing("previous_path"),
            },
            (FileActionKind::Delete, _) => checked.push(FileAction::Delete { path, last_commit_id }),
            (FileActionKind::Chmod, _) => match executable {
                Some(executable) => checked.push(FileAction::Chmod { path, executable }),
                None => missing("execute_filemode"),
            },
        }
    }
    if !errors.is_empty() {
        return Err(Error::InvalidParameters(errors.into()));
    }
    if content_missing {
        return Err(Error::Rejected("You must provide content".into()));
    }
    Ok(checked)
}
