//! Statuses of the checks of merge requests: lists, reports of services and retries.
//!
//! Each change locks the merge request, as a push to its source branch and the decision about its merge do. So a status counts
//! for the commit that the service checked.

use std::collections::BTreeMap;

use sea_orm::DatabaseTransaction;
use storage::entities::events::EventAction;
use storage::entities::merge_requests::{self as rows, MergeRequestState, Model};
use storage::entities::status_check_responses::{self, StatusCheckStatus};
use storage::entities::{status_check_deliveries, status_checks};

use super::evaluation::{self, AppliedStatusCheck};
use crate::activity::events::{self, NewEvent};
use crate::activity::status_checks as outbox;
use crate::code::jobs::auto_merge;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::planning::issuables::events::{IssuableEventData, IssuableEventRow, target};
use crate::review::merge_requests::{approval_policy, find, head_mismatch, lock};

/// The status that a service reports.
#[derive(Debug, Clone)]
pub struct NewStatusCheckResponse {
    /// The status check.
    pub check_id: i64,
    /// The commit that was checked.
    pub sha: String,
    /// The status.
    pub status: StatusCheckStatus,
}

/// A stored status with its check.
#[derive(Debug, Clone)]
pub struct StatusCheckResponseDetail {
    /// The stored status.
    pub response: status_check_responses::Model,
    /// The check, with the same status.
    pub check: AppliedStatusCheck,
}

/// Returns a page of the status checks that apply to a merge request, oldest first.
///
/// # Errors
/// Returns `NotFound` if the merge request does not exist or is not visible to the caller.
pub async fn list(
    backend: &Backend,
    access: &ProjectAccess,
    iid: i64,
    page: &PageRequest,
) -> Result<Page<AppliedStatusCheck>> {
    let db = backend.database.read();
    let merge_request = find(db, access, iid).await?;
    Ok(Page::from_all(page, evaluation::load(db, &merge_request).await?))
}

/// Stores the status of a check for the head of a merge request. If the merge request waits for its checks, its merge is
/// scheduled.
///
/// # Errors
/// Returns `NotFound` if the merge request is not visible or the check does not apply to it, `Conflict` if its head is not the
/// checked commit, `Forbidden` if the settings of the project exclude the caller from approvals of the merge request, and
/// `Unprocessable` if it is merged.
pub async fn create(
    backend: &Backend,
    access: &ProjectAccess,
    iid: i64,
    new: NewStatusCheckResponse,
) -> Result<StatusCheckResponseDetail> {
    let user_id = access.caller.signed_in()?.id;
    let found = find(backend.database.read(), access, iid).await?;
    let sha = new.sha.trim();
    if !sha.eq_ignore_ascii_case(&found.head_sha) {
        return Err(head_mismatch(&found));
    }
    let policy = approval_policy::load(backend, access, &found).await?;
    if policy.excluded.contains(&user_id) {
        return Err(Error::forbidden());
    }
    backend
        .database
        .transaction(async |transaction| {
            let locked = lock(transaction, access, iid).await?;
            if locked.head_sha != found.head_sha {
                return Err(head_mismatch(&locked));
            }
            check_not_merged(&locked)?;
            let mut check = lock_applied(transaction, &locked, new.check_id).await?;
            let key = (locked.id, new.check_id);
            let response =
                status_check_responses::store(transaction, key, &locked.head_sha, new.status).await?;
            check.status = new.status;
            if new.status == StatusCheckStatus::Passed && locked.merge_when_pipeline_succeeds {
                auto_merge::enqueue(transaction, locked.id).await?;
            }
            Ok(StatusCheckResponseDetail { response, check })
        })
        .await
}

/// Sets a failed check of a merge request to pending, and sends the merge request to the service again.
///
/// # Errors
/// Returns `NotFound` if the merge request is not visible or the check does not apply to it, and `Unprocessable` if the check
/// is not failed or the merge request is merged.
pub async fn retry(backend: &Backend, access: &ProjectAccess, iid: i64, check_id: i64) -> Result<()> {
    let user_id = access.caller.signed_in()?.id;
    backend
        .database
        .transaction(async |transaction| {
            let locked = lock(transaction, access, iid).await?;
            check_not_merged(&locked)?;
            if lock_applied(transaction, &locked, check_id).await?.status != StatusCheckStatus::Failed {
                return Err(Error::Unprocessable(
                    "External status check must be failed".into(),
                ));
            }
            let (key, status) = ((locked.id, check_id), StatusCheckStatus::Pending);
            status_check_responses::store(transaction, key, &locked.head_sha, status).await?;
            let event = NewEvent {
                target: Some(target(&locked)),
                ..NewEvent::new(locked.target_project_id, user_id, EventAction::Updated)
            };
            let data = IssuableEventData {
                action: "update".to_owned(),
                changes: BTreeMap::new(),
                oldrev: None,
            };
            let event = events::insert(transaction, event.with_data(&data)?).await?;
            match locked.checked() {
                Some(checked) => outbox::enqueue_one(transaction, &event, checked, check_id).await,
                None => Ok(()),
            }
        })
        .await
}

/// Records that a service did not accept a merge request: its check fails, unless the service has reported a status or the
/// merge request has changed since. The merge request must be locked.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn fail_undelivered(
    transaction: &DatabaseTransaction,
    merge_request: &Model,
    delivery: &status_check_deliveries::Model,
) -> Result<()> {
    if merge_request.state != MergeRequestState::Opened || merge_request.head_sha != delivery.sha {
        return Ok(());
    }
    let check_id = delivery.status_check_id;
    let known = status_check_responses::find(transaction, merge_request.id, check_id).await?;
    let is_pending =
        known.is_none_or(|known| known.sha != delivery.sha || known.status == StatusCheckStatus::Pending);
    if is_pending {
        let (key, status) = ((merge_request.id, check_id), StatusCheckStatus::Failed);
        status_check_responses::store(transaction, key, &delivery.sha, status).await?;
    }
    Ok(())
}

/// Locks the merge request of a delivery and then its check, in the order of all changes of statuses. Returns `None` if one of
/// them was deleted.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn lock_subjects(
    transaction: &DatabaseTransaction,
    delivery: &status_check_deliveries::Model,
) -> Result<Option<Model>> {
    let merge_request = rows::lock(transaction, delivery.merge_request_id).await?;
    let check = status_checks::lock(transaction, delivery.status_check_id).await?;
    Ok(merge_request.filter(|_| check.is_some()))
}

fn check_not_merged(merge_request: &Model) -> Result<()> {
    match merge_request.state {
        MergeRequestState::Opened | MergeRequestState::Closed => Ok(()),
        MergeRequestState::Merged | MergeRequestState::Locked => {
            Err(Error::Unprocessable("The merge request is merged".into()))
        }
    }
}

/// Returns a check that applies to a merge request, and keeps it from being deleted until the transaction ends.
async fn lock_applied(
    transaction: &DatabaseTransaction,
    merge_request: &Model,
    id: i64,
) -> Result<AppliedStatusCheck> {
    status_checks::lock(transaction, id).await?;
    let mut checks = evaluation::load(transaction, merge_request).await?.into_iter();
    checks
        .find(|check| check.id == id)
        .ok_or_else(|| Error::not_found(""))
}
