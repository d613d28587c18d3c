//! Events of merge requests: system notes, recorded events and webhooks.

use std::collections::BTreeMap;

use sea_orm::DatabaseTransaction;
use serde::{Deserialize, Serialize};
use serde_json::json;
use storage::entities::events::{EventAction, EventTargetType};
use storage::entities::merge_requests::{MergeRequestState, Model};
use storage::entities::project_hooks::HookEvent;
use storage::entities::todos::TodoTarget;

use crate::activity::events::{self, NewEvent};
use crate::activity::outbox::WebhookTarget;
use crate::kernel::error::Result;
use crate::planning::issuables::Changed;
use crate::planning::system_notes::{self, NoteableId};
use crate::planning::todo_writer;

/// A merge request that was created or changed.
pub(crate) struct Told<'a> {
    /// The acting user; `None` for a push by an unknown user.
    pub author: Option<i64>,
    /// The row before the change; `None` if it is new.
    pub before: Option<&'a Model>,
    /// The row after the change.
    pub after: &'a Model,
    /// The system notes.
    pub notes: Vec<String>,
    /// Changes outside the row.
    pub beside: BTreeMap<String, Changed>,
    /// The former head of the source branch, if it changed.
    pub oldrev: Option<String>,
}

/// Webhook data in addition to the current state of the merge request.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MergeRequestData {
    /// `open`, `update`, `close`, `reopen` or `merge`.
    pub action: String,
    /// Old and new value of each changed field.
    pub changes: BTreeMap<String, Changed>,
    /// The former head of the source branch, if it changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldrev: Option<String>,
}

/// Writes the system notes, the event and the webhook deliveries in the transaction of the change. Completes
/// the author's to-do items for the merge request.
///
/// # Errors
/// Returns an error if a database query fails.
pub(crate) async fn tell(transaction: &DatabaseTransaction, told: Told<'_>) -> Result<()> {
    let now = told.after;
    system_notes::write(
        transaction,
        NoteableId::MergeRequest(now.id),
        told.author,
        told.notes,
    )
    .await?;
    let was = told.before.map(|before| before.state);
    let (action, word) = match (was, now.state) {
        (None, _) => (EventAction::Created, "open"),
        (Some(MergeRequestState::Merged), MergeRequestState::Merged) => (EventAction::Updated, "update"),
        (Some(_), MergeRequestState::Merged) => (EventAction::Merged, "merge"),
        (Some(MergeRequestState::Closed), MergeRequestState::Opened) => (EventAction::Reopened, "reopen"),
        (Some(MergeRequestState::Opened | MergeRequestState::Locked), MergeRequestState::Closed) => {
            (EventAction::Closed, "close")
        }
        _ => (EventAction::Updated, "update"),
    };
    let mut changes = told.before.map(|before| changes(before, now)).unwrap_or_default();
    changes.extend(told.beside);
    let event = NewEvent {
        project_id: Some(now.target_project_id),
        author_id: told.author,
        action,
        target: Some(target(now)),
        data: None,
        webhook_target: Some(WebhookTarget {
            kind: HookEvent::MergeRequest,
            branch: None,
        }),
    };
    let data = MergeRequestData {
        action: word.to_owned(),
        changes,
        oldrev: told.oldrev,
    };
    events::record(transaction, event.with_data(&data)?).await?;
    match (told.before, told.author) {
        (Some(_), Some(author)) => {
            todo_writer::complete(transaction, author, TodoTarget::MergeRequest(now.id)).await
        }
        _ => Ok(()),
    }
}

/// Returns a merge request as the target of an event.
pub(super) fn target(merge_request: &Model) -> events::EventTarget {
    events::EventTarget {
        kind: EventTargetType::MergeRequest,
        id: merge_request.id,
        iid: Some(merge_request.iid),
        title: Some(merge_request.title.clone()),
    }
}

/// Returns the changed fields of the row.
fn changes(before: &Model, after: &Model) -> BTreeMap<String, Changed> {
    let fields = |of: &Model| {
        [
            ("title", json!(of.title)),
            ("description", json!(of.description)),
            ("state_id", json!(state_id(of.state))),
            ("source_branch", json!(of.source_branch)),
            ("target_branch", json!(of.target_branch)),
            ("discussion_locked", json!(of.discussion_locked)),
            ("milestone_id", json!(of.milestone_id)),
            ("merge_commit_sha", json!(of.merge_commit_sha)),
            ("time_estimate", json!(of.time_estimate)),
            ("total_time_spent", json!(of.total_time_spent)),
            ("updated_at", json!(of.updated_at)),
        ]
    };
    Changed::between(fields(before), fields(after))
}

/// Returns the number of a state in webhooks.
#[must_use]
pub fn state_id(state: MergeRequestState) -> u8 {
    match state {
        MergeRequestState::Opened => 1,
        MergeRequestState::Closed => 2,
        MergeRequestState::Merged => 3,
        MergeRequestState::Locked => 4,
    }
}
