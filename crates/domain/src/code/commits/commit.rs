//! Shared parts of commits created through the API: signatures, branch updates and error messages.

use git::{CommitRequest, CommitResult, PreparedCommit, Repository, Signature};
use storage::entities::now;
use storage::entities::ref_updates::RefUpdateKind;

use crate::code::branch_protection;
use crate::code::push_decision::{self, ProposalKind, ProposedUpdate};
use crate::code::ref_updates::{UpdateAuthority, prepare_and_update_refs};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::ref_changes::{RefChange, RefUpdate};

/// Error if the caller may not push to the branch.
pub const PUSH_NOT_ALLOWED: &str = "You are not allowed to push into this branch";

/// Error if a push updated the branch first.
pub(crate) const BRANCH_CHANGED: &str = "The branch was updated by another push. Please try again.";

/// Returns the error if the caller may not push to the branch.
#[must_use]
pub fn push_not_allowed() -> Error {
    Error::forbidden_because(PUSH_NOT_ALLOWED)
}

/// Author of a commit if it is not the caller. Blank parts are ignored.
#[derive(Debug, Clone, Default)]
pub struct AuthorOverride {
    /// The name.
    pub name: Option<String>,
    /// The email address.
    pub email: Option<String>,
}

/// Returns the author and committer signatures of a new commit of the caller.
///
/// # Errors
/// Returns `Error::Unauthorized` if no user is signed in.
pub fn signatures(access: &ProjectAccess, author: AuthorOverride) -> Result<(Signature, Signature)> {
    let user = access.caller.signed_in()?;
    let committer = Signature::new(&user.name, &user.email, now());
    let non_blank = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
    let author = Signature {
        name: non_blank(author.name).unwrap_or_else(|| committer.name.clone()),
        email: non_blank(author.email).unwrap_or_else(|| committer.email.clone()),
        time: committer.time,
    };
    Ok((author, committer))
}

/// Returns whether the caller may push to the branch.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn can_push(backend: &Backend, access: &ProjectAccess, branch: &str) -> Result<bool> {
    Ok(branch_protection::branch_rules(backend, access)
        .await?
        .can_push(branch))
}

/// Returns the update context for refs of the project.
pub(crate) fn ref_update(access: &ProjectAccess) -> RefUpdate {
    RefUpdate::new(
        access.project.id,
        access.caller.as_user().map(|user| user.id),
        RefUpdateKind::Api,
    )
}

/// Creates a commit from actions and updates its branch. `to_error` maps errors of Git. `read` reads the new
/// commit while its effects are recorded.
///
/// # Errors
/// Returns `Error::Forbidden` if the commit discards commits of the branch and the caller may not force-push. Returns the errors of `to_error` and `read`, or an error if the database fails.
pub async fn commit<T, F>(
    backend: &Backend,
    access: &ProjectAccess,
    repository: &Repository,
    request: CommitRequest,
    to_error: fn(git::Error, &str) -> Error,
    read: impl FnOnce(CommitResult) -> F + Send + 'static,
) -> Result<T>
where
    T: Send + 'static,
    F: Future<Output = Result<T>> + Send + 'static,
{
    let branch = request.branch.clone();
    git::check_branch_name(&branch).map_err(|error| to_error(error, &branch))?;
    let repository = repository.clone();
    let update = ProposedUpdate::branch(&branch, ProposalKind::Update);
    let authority = UpdateAuthority::caller(access, update, push_not_allowed);
    let name = branch.clone();
    let prepare = async move {
        let prepared = repository.prepare_commit(request).await;
        prepared.map_err(|error| to_error(error, &name))
    };
    let (checks, caller) = (backend.clone(), access.clone());
    let publish = async move |prepared: PreparedCommit| {
        // The authority covers updates that only add commits.
        if prepared.discards_commits() {
            push_decision::check_force_push(&checks, &caller, &branch).await?;
        }
        let result = prepared.publish().await;
        let result = result.map_err(|error| to_error(error, &branch))?;
        let changes = vec![RefChange::branch(&branch, result.old, Some(result.commit))];
        Ok((tokio::spawn(read(result)), changes))
    };
    let value = prepare_and_update_refs(backend, ref_update(access), authority, prepare, publish).await?;
    value.await.map_err(Error::internal)?
}

/// Maps the error of a rejected commit to `branch`.
#[must_use]
pub fn commit_error(error: git::Error, branch: &str) -> Error {
    use git::Error as Git;
    let text = match error {
        Git::Action(error) => error.to_string(),
        Git::BranchNotFound => "You can only create or edit files when you are on a branch".to_owned(),
        Git::ReferenceExists => {
            format!(
                "A branch called '{branch}' already exists. Switch to that branch in order to make changes"
            )
        }
        Git::InvalidReferenceName => {
            format!("Something went wrong when we tried to create '{branch}' for you: Branch name is invalid")
        }
        Git::EmptyChange => "The commit contains no changes".to_owned(),
        Git::StaleReference => BRANCH_CHANGED.to_owned(),
        other => return other.into(),
    };
    Error::Rejected(text.into())
}
