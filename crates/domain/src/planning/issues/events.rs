//! System notes, events and webhook data of changed issues.

use std::collections::BTreeMap;

use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter};
use serde::{Deserialize, Serialize};
use serde_json::json;
use storage::entities::events::{EventAction, EventTargetType};
use storage::entities::issues::{IssueState, Model};
use storage::entities::project_hooks::HookEvent;
use storage::entities::{projects, todos as todo_rows};

use crate::activity::events::{self, EventTarget, NewEvent};
use crate::activity::outbox::WebhookTarget;
use crate::identity::access::ProjectAccess;
use crate::kernel::error::Result;
use crate::planning::issuables::Changed;
use crate::planning::system_notes::{self, NoteableId};
use crate::planning::todo_writer;

/// A created or updated issue.
pub(super) struct Told<'a> {
    /// Access to its project.
    pub access: &'a ProjectAccess,
    /// ID of the user who changed it.
    pub author: i64,
    /// Previous row; `None` for a new issue.
    pub before: Option<&'a Model>,
    /// Current row.
    pub after: &'a Model,
}

/// Webhook data besides the current issue: the action and the changed fields.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct IssueData {
    /// `open`, `update`, `close` or `reopen`.
    pub action: String,
    /// Previous and current values of the changed fields.
    pub changes: BTreeMap<String, Changed>,
}

/// Writes system notes, the event and webhook data in the transaction of the change. Marks the user's to-do
/// items for the issue as done.
///
/// # Errors
/// Returns an error if the database fails.
pub(super) async fn tell(
    transaction: &DatabaseTransaction,
    told: Told<'_>,
    notes: Vec<String>,
) -> Result<()> {
    tell_with(transaction, told, notes, BTreeMap::new()).await
}

/// Like [`tell`], with changes outside of the row of the issue.
///
/// # Errors
/// Returns an error if the database fails.
pub(super) async fn tell_with(
    transaction: &DatabaseTransaction,
    told: Told<'_>,
    notes: Vec<String>,
    beside: BTreeMap<String, Changed>,
) -> Result<()> {
    let issue = told.after;
    let more = open_to_all(issue) - told.before.map_or(0, open_to_all);
    count(transaction, issue.project_id, more).await?;
    system_notes::write(transaction, NoteableId::Issue(issue.id), Some(told.author), notes).await?;
    let was = told.before.map(|before| before.state);
    let (action, word) = match (was, issue.state) {
        (None, _) => (EventAction::Created, "open"),
        (Some(IssueState::Opened), IssueState::Closed) => (EventAction::Closed, "close"),
        (Some(IssueState::Closed), IssueState::Opened) => (EventAction::Reopened, "reopen"),
        _ => (EventAction::Updated, "update"),
    };
    let mut changes = told
        .before
        .map(|before| changes(before, issue))
        .unwrap_or_default();
    changes.extend(beside);
    let kind = match issue.confidential {
        true => HookEvent::ConfidentialIssue,
        false => HookEvent::Issue,
    };
    let event = NewEvent {
        target: Some(target(issue)),
        webhook_target: Some(WebhookTarget { kind, branch: None }),
        ..NewEvent::new(told.access.project.id, told.author, action)
    };
    let data = IssueData {
        action: word.to_owned(),
        changes,
    };
    events::record(transaction, event.with_data(&data)?).await?;
    match told.before {
        Some(_) => {
            todo_writer::complete(transaction, told.author, todo_rows::TodoTarget::Issue(issue.id)).await
        }
        None => Ok(()),
    }
}

/// Returns 1 for an issue in the project's count of open issues, which excludes confidential ones.
pub(super) fn open_to_all(issue: &Model) -> i32 {
    i32::from(issue.state == IssueState::Opened && !issue.confidential)
}

/// Adds to the project's number of open issues.
///
/// # Errors
/// Returns an error if the database fails.
pub(super) async fn count(transaction: &DatabaseTransaction, project_id: i64, more: i32) -> Result<()> {
    if more == 0 {
        return Ok(());
    }
    let column = projects::Column::OpenIssuesCount;
    projects::Entity::update_many()
        .col_expr(column, Expr::col(column).add(more))
        .filter(projects::Column::Id.eq(project_id))
        .exec(transaction)
        .await?;
    Ok(())
}

/// Returns an issue as the target of an event.
pub(super) fn target(issue: &Model) -> EventTarget {
    EventTarget {
        kind: EventTargetType::Issue,
        id: issue.id,
        iid: Some(issue.iid),
        title: Some(issue.title.clone()),
    }
}

/// Returns the changed columns.
fn changes(before: &Model, after: &Model) -> BTreeMap<String, Changed> {
    let fields = |issue: &Model| {
        [
            ("title", json!(issue.title)),
            ("description", json!(issue.description)),
            ("state_id", json!(state_id(issue.state))),
            ("confidential", json!(issue.confidential)),
            ("discussion_locked", json!(issue.discussion_locked)),
            ("milestone_id", json!(issue.milestone_id)),
            ("due_date", json!(issue.due_date)),
            ("weight", json!(issue.weight)),
            ("time_estimate", json!(issue.time_estimate)),
            ("total_time_spent", json!(issue.total_time_spent)),
            ("closed_at", json!(issue.closed_at)),
            ("updated_at", json!(issue.updated_at)),
        ]
    };
    Changed::between(fields(before), fields(after))
}

/// Returns the number of a state for webhooks.
#[must_use]
pub fn state_id(state: IssueState) -> u8 {
    match state {
        IssueState::Opened => 1,
        IssueState::Closed => 2,
    }
}
