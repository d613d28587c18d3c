//! Merge requests that are merged automatically when their pipeline succeeds. A successful pipeline enqueues
//! `jobs::merge_waiting`. A failed pipeline does not cancel the waiting, since it may be retried.

use std::collections::BTreeMap;

use sea_orm::{ActiveModelTrait, ActiveValue::Set, DatabaseTransaction, EntityTrait, IntoActiveModel};
use storage::entities::merge_requests::{self, MergeRequestState, Model};
use storage::entities::{now, projects, users};
use storage::jobs;

use super::row::{self, Row, Wanted};
use super::{find, head_pipeline, lock};
use crate::code::branch_protection;
use crate::delivery::jobs::merge_waiting::MergeWaiting;
use crate::identity::access::ProjectAccess;
use crate::identity::authentication::check_account_active;
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::review::merge_requests::events::{Told, tell};
use crate::review::merge_requests::merge::{Acceptance, accept, another_head, check_open, not_allowed};

/// Sets a merge request to be merged when its pipeline succeeds. New commits cancel this.
///
/// # Errors
/// Returns `NotAllowed` if the merge request is not open or is a draft, and `Conflict` if it has other
/// commits than the caller saw.
pub(super) async fn wait(
    backend: &Backend,
    access: &ProjectAccess,
    found: &Model,
    wanted: Acceptance,
) -> Result<Row> {
    let user = access.caller.signed_in()?.id;
    let waiting = backend
        .database
        .transaction(async |transaction| {
            let before = lock(transaction, access, found.iid).await?;
            check_open(&before)?;
            if before.head_sha != found.head_sha {
                return Err(another_head(&before));
            }
            let mut row = before.clone().into_active_model();
            row.merge_when_pipeline_succeeds = Set(true);
            row.merge_user_id = Set(Some(user));
            if let Some(squash) = wanted.squash {
                row.squash = Set(squash);
            }
            if let Some(remove) = wanted.should_remove_source_branch {
                row.should_remove_source_branch = Set(Some(remove));
            }
            let note = format!(
                "enabled an automatic merge when the pipeline for {} succeeds",
                before.head_sha
            );
            let after = enter(transaction, Some(user), &before, row, note).await?;
            overtaken(transaction, &access.project, &after).await?;
            Ok(after)
        })
        .await?;
    row::of_one(backend, access, waiting, Wanted::default()).await
}

/// Cancels the automatic merge of a merge request.
///
/// # Errors
/// Returns `NotFound` if the merge request is not visible, and `Unauthorized` unless the caller is its author
/// or may merge it. Returns `NotAllowed` if it is not open, and `NotAcceptable` if it does not wait.
pub async fn cancel(backend: &Backend, access: &ProjectAccess, iid: i64) -> Result<Row> {
    let user = access.caller.signed_in()?.id;
    let found = find(backend.database.read(), access, iid).await?;
    let rules = branch_protection::branch_rules(backend, access).await?;
    if !rules.can_merge(&found.target_branch) && found.author_id != Some(user) {
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
            row.merge_when_pipeline_succeeds = Set(false);
            row.merge_user_id = Set(None);
            enter(
                transaction,
                Some(user),
                &before,
                row,
                "canceled the automatic merge".to_owned(),
            )
            .await
        })
        .await?;
    row::of_one(backend, access, canceled, Wanted::default()).await
}

/// Enqueues the merge if the pipeline has succeeded in the meantime. A change of a pipeline locks its project
/// until it is committed, and then looks for waiting merge requests. The lock taken here therefore excludes a
/// race.
async fn overtaken(
    transaction: &DatabaseTransaction,
    target: &projects::Model,
    waiting: &Model,
) -> Result<()> {
    if let Some(source) = waiting.source_project_id {
        projects::lock_for_insert(transaction, source).await?;
    }
    let pipeline = head_pipeline::of(transaction, waiting).await?;
    if !head_pipeline::lets_merge(target, pipeline.as_ref()) {
        return Ok(());
    }
    let job = MergeWaiting {
        merge_request_id: waiting.id,
    };
    jobs::enqueue(transaction, &job).await.map_err(Error::internal)
}

/// Merges a waiting merge request if the newest pipeline of its head has succeeded, with the permissions of
/// the user who enabled it. If the merge is not possible, the waiting is canceled and a note states the
/// reason. The operation is idempotent.
///
/// # Errors
/// Returns an error for internal failures; the merge request then still waits.
pub async fn merge_waiting(backend: &Backend, id: i64) -> Result<()> {
    let db = backend.database.read();
    let found = merge_requests::Entity::find_by_id(id).one(db).await?;
    let Some(found) =
        found.filter(|found| found.state == MergeRequestState::Opened && found.merge_when_pipeline_succeeds)
    else {
        return Ok(());
    };
    let Some((target, _)) = projects::by_reference(db, &found.target_project_id.to_string()).await? else {
        return Ok(());
    };
    let pipeline = head_pipeline::of(db, &found).await?;
    if !head_pipeline::lets_merge(&target, pipeline.as_ref()) {
        return Ok(());
    }
    match merge(backend, &found).await {
        Ok(()) => Ok(()),
        Err(error @ (Error::Internal(_) | Error::TimedOut)) => Err(error),
        Err(error) => abort(backend, &found, &(backend.stored_reason)(&error)).await,
    }
}

/// Merges with the permissions of the user who enabled the automatic merge.
async fn merge(backend: &Backend, found: &Model) -> Result<()> {
    let user = match found.merge_user_id {
        Some(id) => users::Entity::find_by_id(id).one(backend.database.read()).await?,
        None => None,
    };
    let user = user.ok_or_else(|| Error::not_found("User"))?;
    check_account_active(&user)?;
    let project = found.target_project_id.to_string();
    let access = ProjectAccess::find(backend, Caller::user(user), &project).await?;
    if access.project.archived {
        return Err(Error::forbidden());
    }
    let wanted = Acceptance {
        sha: Some(found.head_sha.clone()),
        should_remove_source_branch: found.should_remove_source_branch,
        ..Acceptance::default()
    };
    accept(backend, &access, found.iid, wanted).await.map(drop)
}

/// Cancels the automatic merge and writes a note with the reason.
async fn abort(backend: &Backend, found: &Model, reason: &str) -> Result<()> {
    backend
        .database
        .transaction(async |transaction| {
            let before = merge_requests::lock(transaction, found.id).await?;
            let before = before.filter(|before| {
                before.state == MergeRequestState::Opened
                    && before.merge_when_pipeline_succeeds
                    && before.head_sha == found.head_sha
            });
            let Some(before) = before else { return Ok(()) };
            let mut row = before.clone().into_active_model();
            row.merge_when_pipeline_succeeds = Set(false);
            row.merge_user_id = Set(None);
            row.merge_error = Set(Some(reason.to_owned()));
            let note = format!("aborted the automatic merge because it was refused: {reason}");
            enter(transaction, found.merge_user_id, &before, row, note).await?;
            Ok(())
        })
        .await
}

async fn enter(
    transaction: &DatabaseTransaction,
    user: Option<i64>,
    before: &Model,
    mut row: merge_requests::ActiveModel,
    note: String,
) -> Result<Model> {
    row.updated_at = Set(now());
    let after = row.update(transaction).await?;
    let told = Told {
        author: user,
        before: Some(before),
        after: &after,
        notes: vec![note],
        beside: BTreeMap::new(),
        oldrev: None,
    };
    tell(transaction, told).await?;
    Ok(after)
}
