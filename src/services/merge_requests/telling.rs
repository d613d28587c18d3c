//! What is told of a change of a merge request: the notes on it, the record of what happened, and the hooks.

use std::collections::BTreeMap;

use sea_orm::DatabaseTransaction;
use serde::{Deserialize, Serialize};
use serde_json::json;
use storage::entities::events::{Action, TargetType};
use storage::entities::merge_requests::{Model, State};
use storage::entities::project_hooks::Kind;
use storage::entities::todos::Target;

use crate::error::Result;
use crate::services::events::{self, NewEvent};
use crate::services::issuables::Changed;
use crate::services::notes::system::{self, Parent};
use crate::services::todos;

/// A merge request that was made or changed.
pub(in crate::services) struct Told<'a> {
    /// Who did it; nobody where it came by a push of nobody known.
    pub author: Option<i64>,
    /// What it was before; none when it is new.
    pub before: Option<&'a Model>,
    /// What it is now.
    pub after: &'a Model,
    /// The notes that tell of it.
    pub notes: Vec<String>,
    /// Changes of what does not stand in its row.
    pub beside: BTreeMap<String, Changed>,
    /// Where its source branch stood, when that was moved.
    pub oldrev: Option<String>,
}

/// What hooks are told beside the merge request as it is.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MergeRequestData {
    /// `open`, `update`, `close`, `reopen` or `merge`.
    pub action: String,
    /// What each changed field was and is.
    pub changes: BTreeMap<String, Changed>,
    /// Where its source branch stood, when that was moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldrev: Option<String>,
}

/// Writes the notes of the system, the event, and what hooks are told, in the transaction of the change; what waited there for
/// who changed it is done.
///
/// # Errors
/// Whatever the database reports.
pub(in crate::services) async fn tell(transaction: &DatabaseTransaction, told: Told<'_>) -> Result<()> {
    let now = told.after;
    system::write(transaction, Parent::MergeRequest(now.id), told.author, told.notes).await?;
    let was = told.before.map(|before| before.state);
    let (action, word) = match (was, now.state) {
        (None, _) => (Action::Created, "open"),
        (Some(State::Merged), State::Merged) => (Action::Updated, "update"),
        (Some(_), State::Merged) => (Action::Merged, "merge"),
        (Some(State::Closed), State::Opened) => (Action::Reopened, "reopen"),
        (Some(State::Opened | State::Locked), State::Closed) => (Action::Closed, "close"),
        _ => (Action::Updated, "update"),
    };
    let mut changes = told.before.map(|before| changes(before, now)).unwrap_or_default();
    changes.extend(told.beside);
    let event = NewEvent {
        project_id: Some(now.target_project_id),
        author_id: told.author,
        action,
        target: Some(target(now)),
        data: None,
        told: Some(events::Told {
            kind: Kind::MergeRequest,
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
        (Some(_), Some(author)) => todos::settle(transaction, author, Target::MergeRequest(now.id)).await,
        _ => Ok(()),
    }
}

/// A merge request as what something was done to.
pub(super) fn target(merge_request: &Model) -> events::Target {
    events::Target {
        kind: TargetType::MergeRequest,
        id: merge_request.id,
        iid: Some(merge_request.iid),
        title: Some(merge_request.title.clone()),
    }
}

/// The fields of the row that are others now.
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

/// The number of a state, as hooks tell it.
#[must_use]
pub fn state_id(state: State) -> u8 {
    match state {
        State::Opened => 1,
        State::Closed => 2,
        State::Merged => 3,
        State::Locked => 4,
    }
}
