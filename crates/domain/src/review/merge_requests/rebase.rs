//! Rebases a merge request onto its target branch.

use git::{PreparedMove, Signature};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, IntoActiveModel};
use storage::entities::merge_requests::{self, MergeRequestState, Model};
use storage::entities::now;

use super::find;
use crate::code::branch_protection;
use crate::code::commits::commit;
use crate::code::push_decision::{self, ProposalKind, ProposedUpdate};
use crate::code::ref_updates::{UpdateAuthority, prepare_and_update_refs};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::ref_changes::RefChange;
use crate::review::merge_requests::branch_heads::{self, BranchRef};
use crate::review::merge_requests::head_refs;

/// Stored and returned if a rebase fails.
const REBASE_FAILED: &str = "Rebase failed: Rebase locally, resolve all conflicts, then push the branch.";

/// Rebases the source branch of a merge request onto its target branch. Returns the message of a failed
/// rebase, which is also stored in the merge request.
///
/// # Errors
/// Returns `NotFound` if the merge request is not visible or is deleted meanwhile, and `Forbidden` if the caller cannot
/// force-push to the source branch or it was deleted. Returns `NotAllowed` if it is not open, and `Conflict` if a
/// concurrent push wins.
pub async fn rebase(backend: &Backend, access: &ProjectAccess, iid: i64) -> Result<Option<&'static str>> {
    let merge_request = find(backend.database.read(), access, iid).await?;
    if merge_request.state != MergeRequestState::Opened {
        return Err(Error::NotAllowed(None));
    }
    let source = branch_heads::source_access(backend, access, &merge_request).await?;
    let branch = merge_request.source_branch.clone();
    let rules = branch_protection::branch_rules(backend, &source).await?;
    if !push_decision::can_discard_commits(&rules, &source, &branch) {
        return Err(cannot_push());
    }
    let onto = branch_heads::head(backend, BranchRef::target(&merge_request)).await?;
    let onto = onto.ok_or_else(|| Error::forbidden_because("Target branch does not exist"))?;
    let repository = head_refs::repository(backend, source.project.id);
    if source.project.id != merge_request.target_project_id {
        let target = head_refs::repository(backend, merge_request.target_project_id);
        repository.import_commit(&target, onto).await?;
    }
    let user = access.caller.signed_in()?;
    let committer = Signature::new(&user.name, &user.email, now());
    let update = ProposedUpdate::branch(&branch, ProposalKind::Replace);
    let authority = UpdateAuthority::caller(&source, update, cannot_push);
    let name = branch.clone();
    let prepare = async move {
        match repository.prepare_rebase(&name, onto, committer).await {
            Ok(prepared) => Ok(Ok(prepared)),
            Err(error) => failure_message(error).map(Err),
        }
    };
    let publish = async move |prepared: Result<PreparedMove, Option<&'static str>>| match prepared {
        Err(failure) => Ok(((None, failure), Vec::new())),
        Ok(prepared) => {
            let moved = RefChange::branch(&branch, Some(prepared.before()), Some(prepared.after()));
            match prepared.publish().await {
                // The lock is released when everything is recorded.
                Ok(guard) => Ok(((Some(guard), None), vec![moved])),
                Err(git::Error::StaleReference) => Err(Error::Conflict(commit::BRANCH_CHANGED.into())),
                Err(error) => Err(error.into()),
            }
        }
    };
    let mover = commit::ref_update(&source);
    let (_guard, failure) = prepare_and_update_refs(backend, mover, authority, prepare, publish).await?;
    save_failure(backend, &merge_request, failure).await?;
    Ok(failure)
}

/// Stores the failure of a rebase, or removes an earlier one. Does not change a merge request that is no longer open or
/// has another head: a successful rebase has updated it already.
async fn save_failure(backend: &Backend, merge_request: &Model, failure: Option<&str>) -> Result<()> {
    backend
        .database
        .transaction(async |transaction| {
            let locked = merge_requests::lock(transaction, merge_request.id).await?;
            let locked = locked.ok_or_else(|| Error::not_found("MergeRequest"))?;
            if locked.state != MergeRequestState::Opened
                || locked.head_sha != merge_request.head_sha
                || locked.merge_error.as_deref() == failure
            {
                return Ok(());
            }
            let mut row = locked.into_active_model();
            row.merge_error = Set(failure.map(str::to_owned));
            row.update(transaction).await?;
            Ok(())
        })
        .await
}

fn cannot_push() -> Error {
    Error::forbidden_because("Cannot push to source branch")
}

/// Returns the message for a Git error, or `None` if the branch was up to date.
fn failure_message(error: git::Error) -> Result<Option<&'static str>> {
    match error {
        git::Error::EmptyChange => Ok(None),
        git::Error::Conflict | git::Error::LimitExceeded(_) => Ok(Some(REBASE_FAILED)),
        other => Err(other.into()),
    }
}
