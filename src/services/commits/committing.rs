//! What all commits made through the interface share: who signs them, how the branch moves, what refusals say.

use git::{CommitRequest, CommitResult, PreparedCommit, Repository, Signature};
use storage::entities::ref_updates::Kind;

use crate::error::{Error, Result};
use crate::services::Backend;
use crate::services::access::ProjectAccess;
use crate::services::push_rules;
use crate::services::references::{Moved, Mover, moving_prepared};

/// What a caller who may not push to the branch is told.
pub const NOT_ALLOWED: &str = "You are not allowed to push into this branch";

/// What a caller is told whose commit was overtaken by a push.
pub(in crate::services) const OVERTAKEN: &str = "The branch was updated by another push. Please try again.";

/// Who a commit shall say made the change, where that is not the caller. Blank parts are as good as none.
#[derive(Debug, Clone, Default)]
pub struct AuthorOverride {
    /// The name.
    pub name: Option<String>,
    /// The address.
    pub email: Option<String>,
}

/// The signatures of a commit that the caller makes now: author and committer.
///
/// # Errors
/// 401 when nobody is signed in.
pub fn signatures(access: &ProjectAccess, author: AuthorOverride) -> Result<(Signature, Signature)> {
    let user = access.caller.signed_in()?;
    let committer = Signature::now(&user.name, &user.email);
    let given = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
    let author = Signature {
        name: given(author.name).unwrap_or_else(|| committer.name.clone()),
        email: given(author.email).unwrap_or_else(|| committer.email.clone()),
        time: committer.time,
    };
    Ok((author, committer))
}

/// Whether the caller may push to the branch.
///
/// # Errors
/// Whatever the database reports.
pub async fn may_push(backend: &Backend, access: &ProjectAccess, branch: &str) -> Result<bool> {
    Ok(push_rules::rules(backend, access).await?.may_push(branch))
}

/// Who moves the references of the project.
pub(in crate::services) fn mover(access: &ProjectAccess) -> Mover {
    Mover {
        project_id: access.project.id,
        user_id: access.caller.as_user().map(|user| user.id),
        kind: Kind::Api,
    }
}

/// Makes a commit out of actions and moves its branch; `refusal` says what the caller is told when Git refuses. What
/// `look` finds about the commit is found while its consequences are recorded.
///
/// # Errors
/// What `refusal` makes of it, what `look` answers, and failures of the database.
pub async fn commit<T, F>(
    backend: &Backend,
    access: &ProjectAccess,
    repository: &Repository,
    request: CommitRequest,
    refusal: fn(git::Error, &str) -> Error,
    look: impl FnOnce(CommitResult) -> F + Send + 'static,
) -> Result<T>
where
    T: Send + 'static,
    F: Future<Output = Result<T>> + Send + 'static,
{
    let branch = request.branch.clone();
    git::check_branch_name(&branch).map_err(|error| refusal(error, &branch))?;
    let repository = repository.clone();
    let planned = vec![format!("refs/heads/{branch}")];
    let name = branch.clone();
    let prepare = async move {
        let prepared = repository.prepare_commit(request).await;
        prepared.map_err(|error| refusal(error, &name))
    };
    let publish = async move |prepared: PreparedCommit| {
        let made = prepared.publish().await;
        let made = made.map_err(|error| refusal(error, &branch))?;
        let moved = vec![Moved::branch(&branch, made.old, Some(made.commit))];
        Ok((tokio::spawn(look(made)), moved))
    };
    let found = moving_prepared(backend, mover(access), planned, prepare, publish).await?;
    found.await.map_err(Error::internal)?
}

/// What a caller is told when a commit of actions to `branch` is refused (facts, 1 and 2).
#[must_use]
pub fn refusal(error: git::Error, branch: &str) -> Error {
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
        Git::StaleReference => OVERTAKEN.to_owned(),
        other => return other.into(),
    };
    Error::Refused(text.into())
}
