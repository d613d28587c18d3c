//! Approvals that users give and revoke.
//!
//! Both lock the merge request, as a push to its source branch and the decision about its merge do. So an approval counts for
//! the commits that the user saw, and a merge cannot use an approval that was revoked.

use std::collections::{BTreeMap, HashSet};

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter,
};
use storage::entities::events::EventAction;
use storage::entities::merge_requests::{MergeRequestState, Model};
use storage::entities::project_hooks::HookEvent;
use storage::entities::todos::TodoTarget;
use storage::entities::{approvals, now};

use super::evaluation::{self, ApprovalState};
use crate::activity::events::{self, NewEvent};
use crate::activity::outbox::WebhookTarget;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::policy::Role;
use crate::planning::issuables::events::{IssuableEventData, target};
use crate::planning::system_notes::{self, NoteableId};
use crate::planning::todo_writer;
use crate::review::merge_requests::{committers, find, head_mismatch, lock};

/// The approvals of a merge request, as the caller sees them.
#[derive(Debug, Clone)]
pub struct ApprovalDetail {
    /// The merge request.
    pub merge_request: Model,
    /// The approvals and rules.
    pub state: ApprovalState,
    /// Whether the caller has approved.
    pub user_has_approved: bool,
    /// Whether the caller can approve.
    pub user_can_approve: bool,
}

/// Returns the approvals of a merge request.
///
/// # Errors
/// Returns `NotFound` if the merge request does not exist or is not visible to the caller.
pub async fn get(backend: &Backend, access: &ProjectAccess, iid: i64) -> Result<ApprovalDetail> {
    let db = backend.database.read();
    let merge_request = find(db, access, iid).await?;
    let excluded = committers::excluded_users(backend, access, &merge_request).await?;
    let state = evaluation::load(backend, db, access, &merge_request, &excluded).await?;
    Ok(detail(access, merge_request, state, &excluded))
}

/// Approves a merge request. `sha` is the head that the caller saw.
///
/// # Errors
/// Returns `NotFound` if the merge request is not visible, and `Conflict` if its head is not `sha` or changes meanwhile.
/// Returns `Contention` if its target branch changes meanwhile.
/// Returns `Unauthorized` if the merge request is not open, or if the caller has approved it already, is its author or one
/// of its committers, and the project does not permit this.
pub async fn approve(
    backend: &Backend,
    access: &ProjectAccess,
    iid: i64,
    sha: Option<&str>,
) -> Result<ApprovalDetail> {
    let user_id = access.caller.signed_in()?.id;
    let found = find(backend.database.read(), access, iid).await?;
    let sha = sha.map(str::trim).filter(|sha| !sha.is_empty());
    if sha.is_some_and(|sha| !sha.eq_ignore_ascii_case(&found.head_sha)) {
        return Err(head_mismatch(&found));
    }
    let excluded = committers::excluded_users(backend, access, &found).await?;
    let (merge_request, state) = backend
        .database
        .transaction(async |transaction| {
            let locked = lock(transaction, access, iid).await?;
            if locked.head_sha != found.head_sha {
                return Err(head_mismatch(&locked));
            }
            if locked.target_branch != found.target_branch {
                return Err(Error::Contention);
            }
            let before = evaluation::load(backend, transaction, access, &locked, &excluded).await?;
            if !detail(access, locked.clone(), before, &excluded).user_can_approve {
                return Err(Error::Unauthorized);
            }
            let row = approvals::ActiveModel {
                merge_request_id: Set(locked.id),
                user_id: Set(user_id),
                created_at: Set(now()),
                ..Default::default()
            };
            row.insert(transaction).await?;
            let state = evaluation::load(backend, transaction, access, &locked, &excluded).await?;
            let name = match state.is_approved() {
                true => "approved",
                false => "approval",
            };
            let action = (EventAction::Approved, name);
            publish(
                transaction,
                &locked,
                user_id,
                action,
                "approved this merge request",
            )
            .await?;
            Ok((locked, state))
        })
        .await?;
    Ok(detail(access, merge_request, state, &excluded))
}

/// Revokes the caller's approval of a merge request.
///
/// # Errors
/// Returns `NotFound` if the merge request is not visible or the caller has not approved it, and `Unauthorized` if it is
/// merged.
pub async fn unapprove(backend: &Backend, access: &ProjectAccess, iid: i64) -> Result<ApprovalDetail> {
    let user_id = access.caller.signed_in()?.id;
    let found = find(backend.database.read(), access, iid).await?;
    let excluded = committers::excluded_users(backend, access, &found).await?;
    let (merge_request, state) = backend
        .database
        .transaction(async |transaction| {
            let locked = lock(transaction, access, iid).await?;
            if locked.state == MergeRequestState::Merged {
                return Err(Error::Unauthorized);
            }
            let before = evaluation::load(backend, transaction, access, &locked, &excluded).await?;
            let deleted = approvals::Entity::delete_many()
                .filter(approvals::Column::MergeRequestId.eq(locked.id))
                .filter(approvals::Column::UserId.eq(user_id))
                .exec(transaction)
                .await?;
            if deleted.rows_affected == 0 {
                return Err(Error::not_found(""));
            }
            let name = match before.is_approved() {
                true => "unapproved",
                false => "unapproval",
            };
            let action = (EventAction::Updated, name);
            publish(
                transaction,
                &locked,
                user_id,
                action,
                "unapproved this merge request",
            )
            .await?;
            let state = evaluation::load(backend, transaction, access, &locked, &excluded).await?;
            Ok((locked, state))
        })
        .await?;
    Ok(detail(access, merge_request, state, &excluded))
}

fn detail(
    access: &ProjectAccess,
    merge_request: Model,
    state: ApprovalState,
    excluded: &HashSet<i64>,
) -> ApprovalDetail {
    let user_id = access.caller.as_user().map(|user| user.id);
    let user_has_approved = user_id.is_some_and(|id| state.has_approval_of(id));
    let is_excluded = user_id.is_none_or(|id| excluded.contains(&id));
    let is_open = merge_request.state == MergeRequestState::Opened && !access.project.archived;
    ApprovalDetail {
        user_has_approved,
        user_can_approve: is_open && !user_has_approved && !is_excluded && access.has_role(Role::Developer),
        merge_request,
        state,
    }
}

/// Writes the system note, the event and the webhook deliveries of an approval, and completes the user's to-do items.
async fn publish(
    transaction: &DatabaseTransaction,
    merge_request: &Model,
    user_id: i64,
    (action, name): (EventAction, &str),
    note: &str,
) -> Result<()> {
    let noteable = NoteableId::MergeRequest(merge_request.id);
    system_notes::write(transaction, noteable, Some(user_id), vec![note.to_owned()]).await?;
    let event = NewEvent {
        target: Some(target(merge_request)),
        webhook_target: Some(WebhookTarget {
            kind: HookEvent::MergeRequest,
            branch: None,
        }),
        ..NewEvent::new(merge_request.target_project_id, user_id, action)
    };
    let data = IssuableEventData {
        action: name.to_owned(),
        changes: BTreeMap::new(),
        oldrev: None,
    };
    events::record(transaction, event.with_data(&data)?).await?;
    todo_writer::complete(transaction, user_id, TodoTarget::MergeRequest(merge_request.id)).await
}
