//! Applying the change of a commit to a branch once more, or undoing it there (specification 4.2).

use git::Repository;

use super::committing::{self, AuthorOverride, OVERTAKEN};
use super::listing::{self, Listed};
use crate::error::{Error, Result};
use crate::services::Backend;
use crate::services::access::ProjectAccess;
use crate::services::references::{Moved, moving};

/// Which way a change is carried over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// It is made again.
    CherryPick,
    /// It is undone.
    Revert,
}

/// Carries the change of a commit over to a branch and answers the new commit.
///
/// # Errors
/// 403 when the caller may not push to the branch, 404 when commit or branch are not there, 400 with a code when
/// the change conflicts or is there already.
pub async fn transplant(
    backend: &Backend,
    access: &ProjectAccess,
    revision: &str,
    branch: &str,
    direction: Direction,
) -> Result<Listed> {
    let repository = super::repository(backend, access)?;
    if !committing::may_push(backend, access, branch).await? {
        return Err(Error::forbidden_because(committing::NOT_ALLOWED));
    }
    let change = repository.resolve_commit(revision).await?;
    // Looked up before anything is announced, for a missing branch is the caller's mistake.
    repository
        .branch(branch)
        .await
        .map_err(|error| refusal(error, direction))?;
    let (_, committer) = committing::signatures(access, AuthorOverride::default())?;
    let (name, writer): (String, Repository) = (branch.to_owned(), repository.clone());
    let planned = vec![format!("refs/heads/{branch}")];
    let made = moving(backend, committing::mover(access), planned, async move {
        let made = match direction {
            Direction::CherryPick => writer.cherry_pick(change, &name, committer).await,
            Direction::Revert => writer.revert(change, &name, committer).await,
        };
        let made = made.map_err(|error| refusal(error, direction))?;
        let moved = vec![Moved::branch(&name, made.old, Some(made.commit))];
        Ok((made.commit, moved))
    });
    listing::one(&repository, made.await?, false).await
}

fn refusal(error: git::Error, direction: Direction) -> Error {
    let code = match error {
        git::Error::Conflict => "conflict",
        git::Error::EmptyChange => "empty",
        git::Error::InvalidReferenceName => return Error::Refused("The branch refname is invalid".into()),
        git::Error::StaleReference => return Error::Refused(OVERTAKEN.into()),
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
    Error::NotApplicable {
        message: message.into(),
        code,
    }
}
