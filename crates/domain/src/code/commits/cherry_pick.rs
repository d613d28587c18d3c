//! Cherry-picks and reverts of commits.

use git::Repository;

use super::listing::{self, Listed};
use crate::code::commits::commit::{self, AuthorOverride, OVERTAKEN};
use crate::code::ref_updates::moving;
use crate::code::repository_access;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::ref_changes::RefChange;

/// Kind of the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Applies the change again.
    CherryPick,
    /// Reverts the change.
    Revert,
}

/// Cherry-picks or reverts a commit on a branch and returns the new commit.
///
/// # Errors
/// Returns `Error::Forbidden` if the caller may not push to the branch. Returns `Error::NotFound` if the
/// commit or branch does not exist. Returns `Error::PickFailed` if the change conflicts or is already
/// present. Returns `Error::Conflict` if the branch moves meanwhile.
pub async fn transplant(
    backend: &Backend,
    access: &ProjectAccess,
    revision: &str,
    branch: &str,
    direction: Direction,
) -> Result<Listed> {
    let repository = repository_access::repository(backend, access)?;
    if !commit::may_push(backend, access, branch).await? {
        return Err(Error::forbidden_because(commit::NOT_ALLOWED));
    }
    let change = repository.resolve_commit(revision).await?;
    // Checked before the write-ahead intent, because a missing branch is an error of the caller.
    repository
        .branch(branch)
        .await
        .map_err(|error| refusal(error, direction))?;
    let (_, committer) = commit::signatures(access, AuthorOverride::default())?;
    let (name, writer): (String, Repository) = (branch.to_owned(), repository.clone());
    let planned = vec![format!("refs/heads/{branch}")];
    let made = moving(backend, commit::mover(access), planned, async move {
        let made = match direction {
            Direction::CherryPick => writer.cherry_pick(change, &name, committer).await,
            Direction::Revert => writer.revert(change, &name, committer).await,
        };
        let made = made.map_err(|error| refusal(error, direction))?;
        let moved = vec![RefChange::branch(&name, made.old, Some(made.commit))];
        Ok((made.commit, moved))
    });
    listing::one(&repository, made.await?, false).await
}

fn refusal(error: git::Error, direction: Direction) -> Error {
    let code = match error {
        git::Error::Conflict => "conflict",
        git::Error::EmptyChange => "empty",
        git::Error::InvalidReferenceName => return Error::Rejected("The branch refname is invalid".into()),
        git::Error::StaleReference => return Error::Rejected(OVERTAKEN.into()),
        other => return other.into(),
    };
    let (verb, done) = match direction {
        Direction::CherryPick => ("cherry-pick", "cherry-picked"),
        Direction::Revert => ("revert", "reverted"),
    };
    let message = format!(
        "Sorry, we cannot {verb} this commit automatically. This commit may already have been {done}, or a more \
         recent commit may have updated some of its content."
    );
    Error::PickFailed {
        message: message.into(),
        code,
    }
}
