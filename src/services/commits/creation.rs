//! One commit out of many actions (specification 4.2, "Create-commit body").

use bytes::Bytes;
use git::{Action, CommitRequest, CommitResult};

use super::committing::{self, AuthorOverride};
use super::{listing, start};
use crate::error::{Error, Result};
use crate::services::Backend;
use crate::services::access::ProjectAccess;

/// A commit that a caller asks for.
#[derive(Debug, Clone)]
pub struct NewCommit {
    /// The branch it goes to.
    pub branch: String,
    /// The message.
    pub message: String,
    /// Where it starts from.
    pub start: StartPoint,
    /// Whether an existing branch may be moved to another start point.
    pub force: bool,
    /// The author, when not the caller.
    pub author: AuthorOverride,
    /// The changes, in order.
    pub actions: Vec<NewAction>,
    /// Whether the answer shall tell the changed lines.
    pub with_stats: bool,
}

/// Where a caller wants a commit to start; empty texts are as good as none.
#[derive(Debug, Clone, Default)]
pub struct StartPoint {
    /// A branch.
    pub branch: Option<String>,
    /// A full id.
    pub sha: Option<String>,
    /// The project both are looked for in, by id or path.
    pub project: Option<String>,
}

/// What an action does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionKind {
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

/// One action as it was sent; what must be there depends on its kind.
#[derive(Debug, Clone)]
pub struct NewAction {
    /// What it does.
    pub kind: ActionKind,
    /// The path.
    pub path: String,
    /// The path before, for a move.
    pub previous_path: Option<String>,
    /// The content, decoded.
    pub content: Option<Bytes>,
    /// The last commit known to have touched the file.
    pub last_commit_id: Option<String>,
    /// The execute bit, for chmod.
    pub executable: Option<bool>,
}

/// Makes the commit.
///
/// # Errors
/// 403 when the caller may not push to the branch or the start project is no relative, 404 when that project is
/// not there, 400 for everything that keeps the commit from being made.
pub async fn create(backend: &Backend, access: &ProjectAccess, new: NewCommit) -> Result<listing::Listed> {
    let repository = super::repository(backend, access)?;
    let actions = checked(new.actions)?;
    start::check_exclusive(&new.start)?;
    if !committing::may_push(backend, access, &new.branch).await? {
        return Err(Error::forbidden_because(committing::NOT_ALLOWED));
    }
    if new.message.trim().is_empty() {
        return Err(Error::Refused("You must provide a commit message".into()));
    }
    let start = start::find(backend, access, &repository, &new.branch, new.start).await?;
    let (author, committer) = committing::signatures(access, new.author)?;
    let request = CommitRequest {
        branch: new.branch,
        start,
        force: new.force,
        // No action at all is a wish for an empty commit; actions that change nothing are a mistake.
        allow_empty: actions.is_empty(),
        message: new.message,
        author,
        committer,
        actions,
    };
    let (made_in, with_stats) = (repository.clone(), new.with_stats);
    let look = async move |made: CommitResult| listing::one(&made_in, made.commit, with_stats).await;
    committing::commit(backend, access, &repository, request, committing::refusal, look).await
}

/// The actions with what their kinds need.
fn checked(actions: Vec<NewAction>) -> Result<Vec<Action>> {
    let mut faults = Vec::new();
    let mut contentless = false;
    let mut checked = Vec::with_capacity(actions.len());
    for (index, action) in actions.into_iter().enumerate() {
        let NewAction {
            kind,
            path,
            previous_path,
            content,
            last_commit_id,
            executable,
        } = action;
        let last_commit_id = last_commit_id.filter(|id| !id.is_empty());
        let mut missing = |name: &str| faults.push(format!("actions[{index}][{name}] is missing"));
        match (kind, content) {
            (ActionKind::Create, Some(content)) => checked.push(Action::Create { path, content }),
            (ActionKind::Create, None) => contentless = true,
            (ActionKind::Update, Some(content)) => {
                checked.push(Action::Update {
                    path,
                    content,
                    last_commit_id,
                });
            }
            (ActionKind::Update, None) => missing("content"),
            (ActionKind::Move, content) => match previous_path {
                Some(previous_path) => {
                    checked.push(Action::Move {
                        path,
                        previous_path,
                        content,
                        last_commit_id,
                    });
                }
                None => missing("previous_path"),
            },
            (ActionKind::Delete, _) => checked.push(Action::Delete { path, last_commit_id }),
            (ActionKind::Chmod, _) => match executable {
                Some(executable) => checked.push(Action::Chmod { path, executable }),
                None => missing("execute_filemode"),
            },
        }
    }
    if !faults.is_empty() {
        return Err(Error::InvalidParameters(faults));
    }
    if contentless {
        return Err(Error::Refused("You must provide content".into()));
    }
    Ok(checked)
}
