//! System notes, events and webhook data of changed issues and merge requests.

use std::collections::BTreeMap;

use sea_orm::DatabaseTransaction;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use storage::entities::events::{EventAction, EventTargetType};
use storage::entities::issues::{self, IssueState};
use storage::entities::merge_requests::{self, MergeRequestState};
use storage::entities::project_hooks::HookEvent;

use super::{IssuableKind, IssuableRow, resource_events};
use crate::activity::events::{self, EventTarget, NewEvent};
use crate::activity::outbox::WebhookTarget;
use crate::activity::status_checks::{self, CheckedMergeRequest};
use crate::kernel::error::Result;
use crate::planning::{system_notes, todo_writer};

/// A created or updated issue or merge request.
pub(crate) struct IssuableChange<'a, T> {
    /// ID of the user who changed it; `None` for a push by an unknown user.
    pub author_id: Option<i64>,
    /// Previous row; `None` for a new one.
    pub before: Option<&'a T>,
    /// Current row.
    pub after: &'a T,
    /// Texts of the system notes.
    pub notes: Vec<String>,
    /// Changed fields that are not columns of the row.
    pub other_changes: BTreeMap<String, FieldChange>,
    /// Former head of the source branch of a merge request, if it changed.
    pub old_head: Option<String>,
}

impl<'a, T> IssuableChange<'a, T> {
    /// Returns the creation of a row by a user.
    pub fn created(author_id: i64, after: &'a T) -> Self {
        Self {
            author_id: Some(author_id),
            before: None,
            after,
            notes: Vec::new(),
            other_changes: BTreeMap::new(),
            old_head: None,
        }
    }

    /// Returns the update of a row.
    pub fn updated(author_id: Option<i64>, before: &'a T, after: &'a T, notes: Vec<String>) -> Self {
        Self {
            author_id,
            before: Some(before),
            after,
            notes,
            other_changes: BTreeMap::new(),
            old_head: None,
        }
    }
}

/// Previous and current value of a field, for webhooks.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FieldChange {
    /// Previous value.
    pub previous: Value,
    /// Current value.
    pub current: Value,
}

impl FieldChange {
    /// Returns the fields that differ between two lists of the same fields.
    fn between(
        before: Vec<(&'static str, Value)>,
        after: Vec<(&'static str, Value)>,
    ) -> BTreeMap<String, Self> {
        let pairs = before.into_iter().zip(after);
        pairs
            .filter(|((_, previous), (_, current))| previous != current)
            .map(|((name, previous), (_, current))| (name.to_owned(), Self { previous, current }))
            .collect()
    }
}

/// Webhook data in addition to the current row.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct IssuableEventData {
    /// `open`, `update`, `close`, `reopen`, `merge`, or the name of an approval or its revocation.
    pub action: String,
    /// Previous and current values of the changed fields.
    pub changes: BTreeMap<String, FieldChange>,
    /// Former head of the source branch of a merge request, if it changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldrev: Option<String>,
}

/// State of an issue or merge request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IssuableState {
    /// Open.
    Opened,
    /// Closed, but not merged.
    Closed,
    /// Merged.
    Merged,
    /// Locked for a merge.
    Locked,
}

impl From<IssueState> for IssuableState {
    fn from(state: IssueState) -> Self {
        match state {
            IssueState::Opened => Self::Opened,
            IssueState::Closed => Self::Closed,
        }
    }
}

impl From<MergeRequestState> for IssuableState {
    fn from(state: MergeRequestState) -> Self {
        match state {
            MergeRequestState::Opened => Self::Opened,
            MergeRequestState::Closed => Self::Closed,
            MergeRequestState::Merged => Self::Merged,
            MergeRequestState::Locked => Self::Locked,
        }
    }
}

impl IssuableState {
    /// Returns the number of the state in webhooks.
    #[must_use]
    pub fn id(self) -> u8 {
        match self {
            Self::Opened => 1,
            Self::Closed => 2,
            Self::Merged => 3,
            Self::Locked => 4,
        }
    }
}

/// The row of an issue or merge request whose changes are published.
pub(crate) trait IssuableEventRow: IssuableRow {
    /// Returns its state.
    fn state(&self) -> IssuableState;
    /// Returns the kind of webhook events about it.
    fn webhook_event(&self) -> HookEvent;
    /// Returns the fields whose changes are part of webhook data.
    fn webhook_fields(&self) -> Vec<(&'static str, Value)>;
    /// Returns the merge request that external status checks receive.
    fn checked(&self) -> Option<CheckedMergeRequest<'_>> {
        None
    }
}

impl IssuableEventRow for issues::Model {
    fn state(&self) -> IssuableState {
        self.state.into()
    }

    fn webhook_event(&self) -> HookEvent {
        match self.confidential {
            true => HookEvent::ConfidentialIssue,
            false => HookEvent::Issue,
        }
    }

    fn webhook_fields(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("title", json!(self.title)),
            ("description", json!(self.description)),
            ("state_id", json!(self.state().id())),
            ("confidential", json!(self.confidential)),
            ("discussion_locked", json!(self.discussion_locked)),
            ("milestone_id", json!(self.milestone_id)),
            ("due_date", json!(self.due_date)),
            ("weight", json!(self.weight)),
            ("time_estimate", json!(self.time_estimate)),
            ("total_time_spent", json!(self.total_time_spent)),
            ("closed_at", json!(self.closed_at)),
            ("updated_at", json!(self.updated_at)),
        ]
    }
}

impl IssuableEventRow for merge_requests::Model {
    fn state(&self) -> IssuableState {
        self.state.into()
    }

    fn webhook_event(&self) -> HookEvent {
        HookEvent::MergeRequest
    }

    fn webhook_fields(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("title", json!(self.title)),
            ("description", json!(self.description)),
            ("state_id", json!(self.state().id())),
            ("source_branch", json!(self.source_branch)),
            ("target_branch", json!(self.target_branch)),
            ("discussion_locked", json!(self.discussion_locked)),
            ("milestone_id", json!(self.milestone_id)),
            ("merge_commit_sha", json!(self.merge_commit_sha)),
            ("time_estimate", json!(self.time_estimate)),
            ("total_time_spent", json!(self.total_time_spent)),
            ("updated_at", json!(self.updated_at)),
        ]
    }

    fn checked(&self) -> Option<CheckedMergeRequest<'_>> {
        Some(CheckedMergeRequest {
            id: self.id,
            project_id: self.target_project_id,
            target_branch: &self.target_branch,
            head_sha: &self.head_sha,
        })
    }
}

/// Writes the system notes, the events and the webhook deliveries in the transaction of the change. Completes
/// the user's to-do items for an updated issue or merge request.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn publish<T: IssuableEventRow>(
    transaction: &DatabaseTransaction,
    change: IssuableChange<'_, T>,
) -> Result<()> {
    let (before, after) = (change.before, change.after);
    let noteable = after.noteable_id();
    system_notes::write(transaction, noteable, change.author_id, change.notes).await?;
    let (action, name) = action(before.map(IssuableEventRow::state), after.state());
    resource_events::record_change(transaction, change.author_id, (before, after), name).await?;
    let mut changes = before
        .map(|before| FieldChange::between(before.webhook_fields(), after.webhook_fields()))
        .unwrap_or_default();
    changes.extend(change.other_changes);
    let event = NewEvent {
        project_id: Some(after.project_id()),
        author_id: change.author_id,
        action,
        target: Some(target(after)),
        data: None,
        webhook_target: Some(WebhookTarget {
            kind: after.webhook_event(),
            branch: None,
        }),
    };
    let data = IssuableEventData {
        action: name.to_owned(),
        changes,
        oldrev: change.old_head,
    };
    let event = events::record_event(transaction, event.with_data(&data)?).await?;
    let checked = before.and_then(IssuableEventRow::checked);
    if let Some(merge_request) = after.checked()
        && is_sent_to_checks(name, checked, merge_request)
    {
        status_checks::enqueue(transaction, &event, merge_request).await?;
    }
    match (before, change.author_id, noteable.todo_target()) {
        (Some(_), Some(author_id), Some(target)) => {
            todo_writer::complete(transaction, author_id, target).await
        }
        _ => Ok(()),
    }
}

/// Returns whether external status checks receive an event of a merge request: it was created, closed or reopened, or
/// has other commits or another target branch.
fn is_sent_to_checks(
    name: &str,
    before: Option<CheckedMergeRequest<'_>>,
    after: CheckedMergeRequest<'_>,
) -> bool {
    match name {
        "open" | "close" | "reopen" => true,
        "update" => before != Some(after),
        _ => false,
    }
}

/// Returns the action of an event and its name in webhook data.
fn action(before: Option<IssuableState>, after: IssuableState) -> (EventAction, &'static str) {
    use IssuableState::{Closed, Locked, Merged, Opened};
    match (before, after) {
        (None, _) => (EventAction::Created, "open"),
        (Some(Opened | Closed | Locked), Merged) => (EventAction::Merged, "merge"),
        (Some(Closed), Opened) => (EventAction::Reopened, "reopen"),
        (Some(Opened | Locked), Closed) => (EventAction::Closed, "close"),
        _ => (EventAction::Updated, "update"),
    }
}

/// Returns an issue or merge request as the target of an event.
pub(crate) fn target<T: IssuableRow>(issuable: &T) -> EventTarget {
    EventTarget {
        kind: match T::KIND {
            IssuableKind::Issue => EventTargetType::Issue,
            IssuableKind::MergeRequest => EventTargetType::MergeRequest,
        },
        id: issuable.id(),
        iid: Some(issuable.iid()),
        title: Some(issuable.title().to_owned()),
    }
}
