//! Changing an issue.

use chrono::{DateTime, Utc};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, IntoActiveModel};

use super::create::check_title;
use super::metadata::Metadata;
use super::row::{self, Row};
use super::telling::{Told, tell_with};
use super::{find, lock, may_edit, tasks};
use crate::api::types::MaybeUndefined;
use crate::entities::issues::State;
use crate::entities::now;
use crate::error::{Error, Result};
use crate::policy::Role;
use crate::services::Backend;
use crate::services::access::ProjectAccess;
use crate::services::notes::system;

/// What becomes of the state of an issue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateEvent {
    /// It is closed.
    Close,
    /// It is opened again.
    Reopen,
}

/// What changes of an issue; what is absent stays.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Change {
    /// What it is about.
    pub title: Option<String>,
    /// What there is to say.
    pub description: MaybeUndefined<String>,
    /// What becomes of its state.
    pub state_event: Option<StateEvent>,
    /// What members say of it.
    pub metadata: Metadata,
    /// When it was changed, for owners.
    pub updated_at: Option<DateTime<Utc>>,
}

/// The fields, as the answer to a change of nothing names them.
const FIELDS: [&str; 14] = [
    "title",
    "description",
    "confidential",
    "assignee_id",
    "assignee_ids",
    "milestone_id",
    "labels",
    "add_labels",
    "remove_labels",
    "state_event",
    "due_date",
    "weight",
    "discussion_locked",
    "updated_at",
];

/// Changes an issue. Of the metadata, what is for members is ignored from others.
///
/// # Errors
/// 404, 403 for whoever may not edit it, 400 for what does not do and for a change of nothing.
pub async fn edit(backend: &Backend, access: &ProjectAccess, iid: i64, change: Change) -> Result<Row> {
    if change == Change::default() {
        let text = format!(
            "{} are missing, at least one parameter must be provided",
            FIELDS.join(", ")
        );
        return Err(Error::parameter(text));
    }
    let author = access.caller.signed_in()?.id;
    let db = backend.database.read();
    let found = find(db, access, iid).await?;
    if !may_edit(db, access, &found).await? {
        return Err(Error::forbidden());
    }
    let said = match access.holds(Role::Guest) {
        true => change.metadata,
        false => Metadata::default(),
    };
    let prepared = said.prepare(backend, access).await?;
    let title = change.title.as_deref().map(check_title).transpose()?;
    let changed = change.updated_at.filter(|_| access.holds(Role::Owner));
    let issue = backend
        .database
        .transaction(async |transaction| {
            let before = lock(transaction, access, iid).await?;
            let mut row = before.clone().into_active_model();
            let mut notes = Vec::new();
            if let Some(title) = title.filter(|title| *title != before.title) {
                row.title = Set(title.to_owned());
                notes.push(system::retitled(&before.title, title));
            }
            let description = change.description.as_opt_ref().map(|text| text.cloned());
            if let Some(description) = description.filter(|text| *text != before.description) {
                let (all, completed) = tasks::count(description.as_deref());
                (row.tasks, row.completed_tasks) = (Set(all), Set(completed));
                row.description = Set(description);
                notes.push("changed the description".to_owned());
            }
            if !notes.is_empty() {
                row.last_edited_at = Set(Some(now()));
                row.last_edited_by_id = Set(Some(author));
            }
            notes.extend(prepared.enter(&mut row, Some(&before)));
            match (change.state_event, before.state) {
                (Some(StateEvent::Close), State::Opened) => {
                    row.state = Set(State::Closed);
                    row.closed_at = Set(Some(now()));
                    row.closed_by_id = Set(Some(author));
                    notes.push("closed".to_owned());
                }
                (Some(StateEvent::Reopen), State::Closed) => {
                    row.state = Set(State::Opened);
                    row.closed_at = Set(None);
                    row.closed_by_id = Set(None);
                    notes.push("reopened".to_owned());
                }
                _ => {}
            }
            let mut outcome = prepared.attach(transaction, access, before.id, false).await?;
            notes.append(&mut outcome.notes);
            row.updated_at = Set(changed.unwrap_or_else(now));
            let issue = row.update(transaction).await?;
            let told = Told {
                access,
                author,
                before: Some(&before),
                after: &issue,
            };
            tell_with(transaction, told, notes, outcome.changes).await?;
            Ok::<_, Error>(issue)
        })
        .await?;
    row::of_one(backend, &access.caller, issue).await
}
