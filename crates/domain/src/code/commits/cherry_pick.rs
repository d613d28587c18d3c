//! Cherry-picks and reverts of commits.

use git::{PreparedCommit, Repository};

use super::listing::{self, CommitDetail};
use crate::code::commits::commit::{self, AuthorOverride, BRANCH_CHANGED};
use crate::code::push_decision::{ProposalKind, ProposedUpdate};
use crate::code::ref_updates::{UpdateAuthority, prepare_and_update_refs};
use crate::code::repository_access;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::ref_changes::RefChange;

/// How a commit is applied to a branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApplyMode {
    /// Applies the change of the commit.
    CherryPick,
    /// Applies the inverse of the change.
    Revert,
}

/// Cherry-picks or reverts a commit on a branch and returns the new commit.
///
/// # Errors
/// Returns `Error::Forbidden` if the caller may not push to the branch. Returns `Error::NotFound` if the
/// commit or branch does not exist. Returns `Error::PickFailed` if the change conflicts or is already
/// present, or if the branch moves meanwhile.
pub async fn apply_commit(
    backend: &Backend,
    access: &ProjectAccess,
    revision: &str,
    branch: &str,
    mode: ApplyMode,
) -> Result<CommitDetail> {
    let repository = repository_access::repository(backend, access)?;
    if !commit::can_push(backend, access, branch).await? {
        return Err(commit::push_not_allowed());
    }
    let change = repository.resolve_commit(revision).await?;
    // Checked before the write-ahead intent, because a missing branch is an error of the caller.
    repository
        .branch(branch)
        .await
        .map_err(|error| pick_error(error, mode))?;
    let (_, committer) = commit::signatures(access, AuthorOverride::default())?;
    let (name, writer): (String, Repository) = (branch.to_owned(), repository.clone());
    let update = ProposedUpdate::branch(branch, ProposalKind::Update);
    let authority = UpdateAuthority::caller(access, update, commit::push_not_allowed);
    let prepare = async move {
        let prepared = match mode {
            ApplyMode::CherryPick => writer.prepare_cherry_pick(change, &name, committer).await,
            ApplyMode::Revert => writer.prepare_revert(change, &name, committer).await,
        };
        Ok((prepared.map_err(|error| pick_error(error, mode))?, name))
    };
    let publish = async move |(prepared, name): (PreparedCommit, String)| {
        let result = prepared.publish().await;
        let result = result.map_err(|error| pick_error(error, mode))?;
        let changes = vec![RefChange::branch(&name, result.old, Some(result.commit))];
        Ok((result.commit, changes))
    };
    let update = commit::ref_update(access);
    let new_commit = prepare_and_update_refs(backend, update, authority, prepare, publish).await?;
    listing::load_detail(&repository, new_commit, false).await
}

fn pick_error(error: git::Error, mode: ApplyMode) -> Error {
    let code = match error {
        git::Error::Conflict => "conflict",
        git::Error::EmptyChange => "empty",
        git::Error::InvalidReferenceName => return Error::Rejected("The branch refname is invalid".into()),
        git::Error::StaleReference => {
            return Error::PickFailed {
                message: BRANCH_CHANGED.into(),
                code: "conflict",
            };
        }
        other => return other.into(),
    };
    let (verb, participle) = match mode {
        ApplyMode::CherryPick => ("cherry-pick", "cherry-picked"),
        ApplyMode::Revert => ("revert", "reverted"),
    };
    let message = format!(
        "Sorry, we cannot {verb} this commit automatically. This commit may already have been {participle}, or a more \
         recent commit may have updated some of its content."
    );
    Error::PickFailed {
        message: message.into(),
        code,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_to_apply_a_change_have_error_codes() {
        for (cause, code) in [
            (git::Error::Conflict, "conflict"),
            (git::Error::StaleReference, "conflict"),
            (git::Error::EmptyChange, "empty"),
        ] {
            let error = pick_error(cause, ApplyMode::CherryPick);
            assert!(
                matches!(error, Error::PickFailed { code: found, .. } if found == code),
                "{error:?}"
            );
        }
        let error = pick_error(git::Error::StaleReference, ApplyMode::Revert);
        assert_eq!(error.to_string(), BRANCH_CHANGED);
    }
}
