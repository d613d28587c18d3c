//! Approvals that users give and revoke.
//!
//! Both lock the merge request, as a push to its source branch and the decision about its merge do. So an approval counts for
//! the commits that the user saw, and a merge cannot use an approval that was revoked.

use std::collections::BTreeMap;

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, DatabaseTransaction, EntityTrait, PaginatorTrait,
    QueryFilter,
};
use storage::entities::events::EventAction;
use storage::entities::merge_requests::{MergeRequestState, Model};
use storage::entities::project_hooks::HookEvent;
use storage::entities::related_rows::RelatedRows;
use storage::entities::todos::TodoTarget;
use storage::entities::{approvals, now, project_bots};

use super::evaluation::{self, AppliedRule, ApprovalParts, ApprovalState, scope_of};
use super::rules::RuleDetailParts;
use super::rules::own_rules::{self, OwnRuleDetail, owner_rules};
use super::settings::ApprovalPolicy;
use crate::activity::events::{self, NewEvent};
use crate::activity::outbox::WebhookTarget;
use crate::code::branch_protection::{self, TargetProtection};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::policy::Role;
use crate::planning::issuables::events::{IssuableChange, IssuableEventData, target};
use crate::planning::system_notes::{self, NoteableId};
use crate::planning::{issuables, todo_writer};
use crate::review::merge_requests::{approval_policy, find, head_mismatch, lock};

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

/// The rules that apply to a merge request, as the caller sees them.
#[derive(Debug, Clone)]
pub struct ApprovalStateDetail {
    /// The approvals and rules.
    pub state: ApprovalState,
    /// The details of each rule of `state`, in the same order.
    pub details: Vec<OwnRuleDetail>,
}

/// Returns the approvals of a merge request.
///
/// # Errors
/// Returns `NotFound` if the merge request does not exist or is not visible to the caller.
pub async fn get(backend: &Backend, access: &ProjectAccess, iid: i64) -> Result<ApprovalDetail> {
    let db = backend.database.read();
    let merge_request = find(db, access, iid).await?;
    let policy = approval_policy::load(backend, access, &merge_request).await?;
    let state = evaluation::load(backend, db, access, &merge_request, &policy).await?;
    Ok(detail(access, merge_request, state, &policy))
}

/// Returns the rules that apply to a merge request.
///
/// # Errors
/// Returns `NotFound` if the merge request does not exist or is not visible to the caller.
pub async fn get_state(backend: &Backend, access: &ProjectAccess, iid: i64) -> Result<ApprovalStateDetail> {
    let db = backend.database.read();
    let merge_request = find(db, access, iid).await?;
    let policy = approval_policy::load(backend, access, &merge_request).await?;
    let mut related = RelatedRows::default();
    let parts = ApprovalParts::add(backend, &mut related, access, &merge_request, &policy);
    let details = RuleDetailParts::add(&mut related, access, scope_of(&merge_request));
    let protections = branch_protection::add_rules(&mut related, access);
    let mut rows = related.load(db).await?;
    let protections = protections.take(&mut rows)?;
    let target = TargetProtection::of(&protections, &merge_request.target_branch);
    let state = parts.take(&mut rows, &merge_request, target, &policy)?;
    let split = own_rules::split(details.take(db, &mut rows, access).await?);
    let of_project = split.of_project.into_iter().map(|detail| OwnRuleDetail {
        detail,
        source: None,
        is_overridden: false,
        section: None,
        is_code_owner: false,
    });
    let of_owners = owner_rules::details(db, access, &merge_request, &policy.owners, &state).await?;
    let stored = split.own.into_iter().chain(of_project);
    let all: Vec<OwnRuleDetail> = stored.chain(of_owners).collect();
    let of_rule = |rule: &AppliedRule| all.iter().find(|known| known.detail.rule.id == rule.id).cloned();
    let details = state.rules.iter().filter_map(of_rule).collect();
    Ok(ApprovalStateDetail { state, details })
}

/// Sets the number of approvals of any users that a merge request requires.
///
/// # Errors
/// Returns the errors of [`own_rules::require_approvals`].
pub async fn require(
    backend: &Backend,
    access: &ProjectAccess,
    iid: i64,
    approvals_required: i64,
) -> Result<ApprovalDetail> {
    own_rules::require_approvals(backend, access, iid, approvals_required).await?;
    get(backend, access, iid).await
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
    let policy = approval_policy::load(backend, access, &found).await?;
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
            let own = approvals::Entity::find()
                .filter(approvals::Column::MergeRequestId.eq(locked.id))
                .filter(approvals::Column::UserId.eq(user_id));
            if !can_approve(access, &locked, &policy) || own.count(transaction).await? > 0 {
                return Err(Error::Unauthorized);
            }
            let row = approvals::ActiveModel {
                merge_request_id: Set(locked.id),
                user_id: Set(user_id),
                created_at: Set(now()),
                ..Default::default()
            };
            row.insert(transaction).await?;
            let state = evaluation::load(backend, transaction, access, &locked, &policy).await?;
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
    Ok(detail(access, merge_request, state, &policy))
}

/// Revokes the caller's approval of a merge request.
///
/// # Errors
/// Returns `NotFound` if the merge request is not visible, `NothingToRevoke` if the caller has not approved it, and
/// `Unauthorized` if it is merged.
pub async fn unapprove(backend: &Backend, access: &ProjectAccess, iid: i64) -> Result<ApprovalDetail> {
    let user_id = access.caller.signed_in()?.id;
    let found = find(backend.database.read(), access, iid).await?;
    let policy = approval_policy::load(backend, access, &found).await?;
    let (merge_request, state) = backend
        .database
        .transaction(async |transaction| {
            let locked = lock(transaction, access, iid).await?;
            if locked.state == MergeRequestState::Merged {
                return Err(Error::Unauthorized);
            }
            let mut state = evaluation::load(backend, transaction, access, &locked, &policy).await?;
            let deleted = approvals::Entity::delete_many()
                .filter(approvals::Column::MergeRequestId.eq(locked.id))
                .filter(approvals::Column::UserId.eq(user_id))
                .exec(transaction)
                .await?;
            if deleted.rows_affected == 0 {
                return Err(Error::NothingToRevoke);
            }
            let name = match state.is_approved() {
                true => "unapproved",
                false => "unapproval",
            };
            state.remove_approval_of(user_id);
            let action = (EventAction::Updated, name);
            publish(
                transaction,
                &locked,
                user_id,
                action,
                "unapproved this merge request",
            )
            .await?;
            Ok((locked, state))
        })
        .await?;
    Ok(detail(access, merge_request, state, &policy))
}

/// Deletes all approvals of a merge request, for the bot of an access token of the project.
///
/// # Errors
/// Returns `NotFound` if the merge request is not visible, and `Unauthorized` if the caller is not a bot of the project or the
/// merge request is merged.
pub async fn reset(backend: &Backend, access: &ProjectAccess, iid: i64) -> Result<()> {
    let user_id = access.caller.signed_in()?.id;
    let db = backend.database.read();
    find(db, access, iid).await?;
    if !project_bots::is_bot_of(db, user_id, access.project.id).await? {
        return Err(Error::Unauthorized);
    }
    backend
        .database
        .transaction(async |transaction| {
            let locked = lock(transaction, access, iid).await?;
            if locked.state == MergeRequestState::Merged {
                return Err(Error::Unauthorized);
            }
            if approvals::delete_all(transaction, locked.id).await? {
                let notes = vec!["removed all approvals".to_owned()];
                let change = IssuableChange::updated(Some(user_id), &locked, &locked, notes);
                issuables::events::publish(transaction, change).await?;
            }
            Ok(())
        })
        .await
}

fn detail(
    access: &ProjectAccess,
    merge_request: Model,
    state: ApprovalState,
    policy: &ApprovalPolicy,
) -> ApprovalDetail {
    let user_id = access.caller.as_user().map(|user| user.id);
    let user_has_approved = user_id.is_some_and(|id| state.has_approval_of(id));
    ApprovalDetail {
        user_has_approved,
        user_can_approve: !user_has_approved && can_approve(access, &merge_request, policy),
        merge_request,
        state,
    }
}

/// Returns whether the caller can approve a merge request, unless the caller has approved it already.
fn can_approve(access: &ProjectAccess, merge_request: &Model, policy: &ApprovalPolicy) -> bool {
    let user_id = access.caller.as_user().map(|user| user.id);
    let is_excluded = user_id.is_none_or(|id| policy.excluded.contains(&id));
    let is_open = merge_request.state == MergeRequestState::Opened && !access.project.archived;
    is_open && !is_excluded && access.has_role(Role::Developer)
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
