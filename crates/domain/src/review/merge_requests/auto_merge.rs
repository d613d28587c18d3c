//! Merge requests that are merged automatically when their pipeline succeeds and their status checks have passed. A
//! successful pipeline, a passed check, a deleted pipeline and a removed requirement enqueue `code::jobs::auto_merge`. A
//! failed pipeline or check does not cancel the waiting, since it may be retried.

use sea_orm::{ActiveModelTrait, ActiveValue::Set, DatabaseTransaction, EntityTrait, IntoActiveModel};
use serde::{Deserialize, Serialize};
use storage::entities::merge_requests::{self, MergeRequestState, Model};
use storage::entities::{now, pipelines, projects, row_changes, users};

use super::row::{self, MergeRequestDetail};
use super::{find, head_pipeline, lock};
use crate::code::branch_protection;
use crate::code::jobs::auto_merge;
use crate::identity::access::ProjectAccess;
use crate::identity::authentication::check_account_active;
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::planning::issuables::events::{IssuableChange, publish};
use crate::review::merge_requests::merge::{
    MergeParams, WaitingMerge, accept, check_open, current_target, head_mismatch, not_allowed,
    target_branch_changed,
};
use crate::review::merge_requests::ref_updates::MergePlan;
use crate::review::status_checks::evaluation as checks;

/// The merge that a user approved by enabling the automatic merge. Another head or target branch is not merged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ApprovedMerge {
    /// The head.
    pub head: String,
    /// The target branch.
    pub target_branch: String,
}

/// The parameters in the row of a merge request with an automatic merge. A [`MergePlan`] has the same attribute.
#[derive(Debug, Serialize, Deserialize)]
struct WaitingParams {
    approved: Option<ApprovedMerge>,
}

/// Returns the approved merge of a merge request, or `None` if it does not wait.
pub(super) fn approved_merge(merge_request: &Model) -> Option<ApprovedMerge> {
    let params = merge_request
        .merge_params
        .as_deref()
        .filter(|_| merge_request.merge_when_pipeline_succeeds)?;
    serde_json::from_str::<WaitingParams>(params).ok()?.approved
}

/// Returns the parameters of a row without a plan of a merge.
///
/// # Errors
/// Returns an internal error if they cannot be serialized.
pub(super) fn params_without_plan(merge_request: &Model) -> Result<Option<String>> {
    let approved = approved_merge(merge_request).map(|approved| WaitingParams {
        approved: Some(approved),
    });
    let text = approved.as_ref().map(serde_json::to_string).transpose();
    text.map_err(Error::internal)
}

/// Returns the parameters of a row whose current head and target branch are approved. The plan of a merge that is about
/// to happen remains.
fn approve(merge_request: &Model) -> Result<String> {
    let approved = Some(ApprovedMerge {
        head: merge_request.head_sha.clone(),
        target_branch: merge_request.target_branch.clone(),
    });
    let text = match MergePlan::of(merge_request) {
        Some(plan) => serde_json::to_string(&MergePlan { approved, ..plan }),
        None => serde_json::to_string(&WaitingParams { approved }),
    };
    text.map_err(Error::internal)
}

/// Sets a merge request to be merged when its pipeline succeeds. New commits, closing, reopening and another target
/// branch cancel this. Does nothing if the merge request waits with the same parameters.
///
/// # Errors
/// Returns `NotAllowed` if the merge request is not open or is a draft, and `Conflict` if it has another head or target
/// branch than `merge_request`, whose target branch was checked.
pub(super) async fn enable(
    backend: &Backend,
    access: &ProjectAccess,
    merge_request: &Model,
    params: MergeParams,
) -> Result<MergeRequestDetail> {
    let user = access.caller.signed_in()?.id;
    let enabled = backend
        .database
        .transaction(async |transaction| {
            let before = lock(transaction, access, merge_request.iid).await?;
            check_open(&before)?;
            if before.head_sha != merge_request.head_sha {
                return Err(head_mismatch(&before));
            }
            if before.target_branch != merge_request.target_branch {
                return Err(target_branch_changed());
            }
            let mut row = before.clone().into_active_model();
            row.merge_when_pipeline_succeeds = Set(true);
            row.merge_user_id = Set(Some(user));
            row.merge_params = Set(Some(approve(&before)?));
            row.merge_commit_message = Set(params.merge_commit_message);
            row.squash_commit_message = Set(params.squash_commit_message);
            if let Some(squash) = params.squash {
                row.squash = Set(squash);
            }
            row.should_remove_source_branch = Set(params.should_remove_source_branch);
            if !row_changes::is_changed(&row, &before) {
                return Ok(before);
            }
            let pipeline = pipeline_under_lock(transaction, &before).await?;
            // The requirements may have been removed in the meantime, too.
            let target = current_target(transaction, &before).await?;
            let is_ready = head_pipeline::is_ready(&target, pipeline.as_ref());
            let sha = &before.head_sha;
            let note = match is_ready {
                true => format!("enabled an automatic merge when the status checks for {sha} pass"),
                false => format!("enabled an automatic merge when the pipeline for {sha} succeeds"),
            };
            let after = save(transaction, Some(user), &before, row, note).await?;
            if is_ready {
                auto_merge::enqueue(transaction, after.id).await?;
            }
            Ok(after)
        })
        .await?;
    row::load_written(backend, access, enabled).await
}

/// Cancels the automatic merge of a merge request.
///
/// # Errors
/// Returns `NotFound` if the merge request is not visible, and `Unauthorized` unless the caller is its author
/// or may merge it. Returns `NotAllowed` if it is not open, and `NotAcceptable` if it does not wait.
pub async fn cancel_auto_merge(
    backend: &Backend,
    access: &ProjectAccess,
    iid: i64,
) -> Result<MergeRequestDetail> {
    let user = access.caller.signed_in()?.id;
    let merge_request = find(backend.database.read(), access, iid).await?;
    let rules = branch_protection::branch_rules(backend, access).await?;
    if !rules.can_merge(&merge_request.target_branch) && merge_request.author_id != Some(user) {
        return Err(Error::Unauthorized);
    }
    let canceled = backend
        .database
        .transaction(async |transaction| {
            let before = lock(transaction, access, iid).await?;
            if before.state != MergeRequestState::Opened {
                return Err(not_allowed());
            }
            if !before.merge_when_pipeline_succeeds {
                return Err(Error::NotAcceptable(
                    "The merge request has no automatic merge".into(),
                ));
            }
            let mut row = before.clone().into_active_model();
            clear(&mut row);
            save(
                transaction,
                Some(user),
                &before,
                row,
                "canceled the automatic merge".to_owned(),
            )
            .await
        })
        .await?;
    row::load_written(backend, access, canceled).await
}

/// Returns the head pipeline, which may have succeeded in the meantime. A change of a pipeline locks its project until
/// it is committed, and then looks for waiting merge requests. The lock taken here therefore excludes a race.
async fn pipeline_under_lock(
    transaction: &DatabaseTransaction,
    merge_request: &Model,
) -> Result<Option<pipelines::Model>> {
    if let Some(source) = merge_request.source_project_id {
        projects::lock_for_insert(transaction, source).await?;
    }
    head_pipeline::find(transaction, merge_request).await
}

/// Merges a waiting merge request if the newest pipeline of its head has succeeded and its status checks have passed,
/// with the permissions of the user who enabled it. If the merge is refused, the waiting is canceled and a note states
/// the reason. The operation is idempotent.
///
/// # Errors
/// Returns the errors of [`Error::can_succeed_later`], for example if the repository is locked or concurrent pushes win
/// repeatedly. The merge request then still waits.
pub async fn run_auto_merge(backend: &Backend, id: i64) -> Result<()> {
    let db = backend.database.read();
    let merge_request = merge_requests::Entity::find_by_id(id).one(db).await?;
    let Some(merge_request) = merge_request.filter(|merge_request| {
        merge_request.state == MergeRequestState::Opened && merge_request.merge_when_pipeline_succeeds
    }) else {
        return Ok(());
    };
    let Some((target, _)) = projects::by_reference(db, &merge_request.target_project_id.to_string()).await?
    else {
        return Ok(());
    };
    let pipeline = head_pipeline::find(db, &merge_request).await?;
    if !head_pipeline::is_ready(&target, pipeline.as_ref())
        || !checks::allow_merge(backend, db, &target, &merge_request).await?
    {
        return Ok(());
    }
    match merge(backend, &merge_request).await {
        Ok(()) => Ok(()),
        Err(error) if error.can_succeed_later() => Err(error),
        Err(error) => abort(backend, &merge_request, &(backend.stored_reason)(&error)).await,
    }
}

/// Merges with the permissions of the user who enabled the automatic merge.
async fn merge(backend: &Backend, merge_request: &Model) -> Result<()> {
    let user = match merge_request.merge_user_id {
        Some(id) => users::Entity::find_by_id(id).one(backend.database.read()).await?,
        None => None,
    };
    let user = user.ok_or_else(|| Error::not_found("User"))?;
    check_account_active(&user)?;
    let user_id = user.id;
    let project = merge_request.target_project_id.to_string();
    let access = ProjectAccess::find(backend, Caller::user(user), &project).await?;
    if access.project.archived {
        return Err(Error::forbidden());
    }
    let approved = approved_merge(merge_request).ok_or_else(|| {
        let text = "The approved commit is unknown. Enable the automatic merge again.";
        Error::Conflict(text.into())
    })?;
    let params = MergeParams {
        sha: Some(approved.head),
        waited_for: Some(WaitingMerge {
            target_branch: approved.target_branch,
            user_id,
        }),
        merge_commit_message: merge_request.merge_commit_message.clone(),
        squash_commit_message: merge_request.squash_commit_message.clone(),
        should_remove_source_branch: merge_request.should_remove_source_branch,
        ..MergeParams::default()
    };
    accept(backend, &access, merge_request.iid, params)
        .await
        .map(drop)
}

/// Cancels the automatic merge that a job read and writes a note with the reason. An automatic merge that was enabled
/// since then remains.
async fn abort(backend: &Backend, merge_request: &Model, reason: &str) -> Result<()> {
    backend
        .database
        .transaction(async |transaction| {
            let before = merge_requests::lock(transaction, merge_request.id).await?;
            let before = before.filter(|before| {
                before.state == MergeRequestState::Opened
                    && before.merge_when_pipeline_succeeds
                    && before.head_sha == merge_request.head_sha
                    && before.merge_user_id == merge_request.merge_user_id
                    // The parameters can also contain a plan, which was possibly deleted since then.
                    && approved_merge(before) == approved_merge(merge_request)
            });
            let Some(before) = before else { return Ok(()) };
            let mut row = before.clone().into_active_model();
            clear(&mut row);
            row.merge_error = Set(Some(reason.to_owned()));
            let note = format!("aborted the automatic merge because it was refused: {reason}");
            save(transaction, merge_request.merge_user_id, &before, row, note).await?;
            Ok(())
        })
        .await
}

/// Removes the automatic merge and its parameters from a row. `force_remove_source_branch` remains: it is an attribute
/// of the merge request.
pub(super) fn clear(row: &mut merge_requests::ActiveModel) {
    row.merge_when_pipeline_succeeds = Set(false);
    row.merge_user_id = Set(None);
    row.merge_commit_message = Set(None);
    row.squash_commit_message = Set(None);
    row.should_remove_source_branch = Set(None);
}

/// Returns the text of the system note about a change that cancels the automatic merge.
pub(super) fn cancellation_note(reason: &str) -> String {
    format!("canceled the automatic merge because {reason}")
}

/// Updates the row and publishes the change with a system note.
async fn save(
    transaction: &DatabaseTransaction,
    user: Option<i64>,
    before: &Model,
    mut row: merge_requests::ActiveModel,
    note: String,
) -> Result<Model> {
    row.updated_at = Set(now());
    let after = row.update(transaction).await?;
    publish(
        transaction,
        IssuableChange::updated(user, before, &after, vec![note]),
    )
    .await?;
    Ok(after)
}
