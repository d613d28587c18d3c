//! Updates issues.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, EntityTrait, IntoActiveModel,
    QueryFilter, QuerySelect,
};
use storage::entities::issues::{IssueKey, IssueState};
use storage::entities::{issues, notes, now, row_changes};

use super::metadata::IssueMetadata;
use super::row::{self, IssueDetail};
use super::{can_edit, find, lock};
use crate::identity::access::ProjectAccess;
use crate::identity::space_access::SpaceAccess;
use crate::kernel::error::{Error, Result};
use crate::kernel::patch::Patch;
use crate::kernel::policy::Role;
use crate::kernel::text::references::has_references;
use crate::kernel::{Backend, urls};
use crate::planning::issuables::events::IssuableChange;
use crate::planning::issuables::{IssuableRow, check_title};
use crate::planning::issues::events::publish;
use crate::planning::mentions::{self, TextAudience, TextSource};
use crate::planning::state_event::StateEvent;
use crate::planning::system_notes::{self, NoteableId};

/// Start of the system note of [`ClosedBy`], which also finds the issues that a merge request closed.
const CLOSED_VIA: &str = "closed via ";

/// Attributes to change; absent ones stay.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct IssueUpdate {
    /// Title of the issue.
    pub title: Option<String>,
    /// Description of the issue.
    pub description: Patch<String>,
    /// Change of the state.
    pub state_event: Option<StateEvent>,
    /// Attributes that only members can set.
    pub metadata: IssueMetadata,
    /// Time of the change. Ignored unless the caller is an Owner.
    pub updated_at: Option<DateTime<Utc>>,
    /// Cause of closing the issue, if it was not closed directly.
    pub closed_by: Option<ClosedBy>,
}

/// Cause of closing an issue on behalf of a user.
#[derive(Debug, Clone, PartialEq)]
pub struct ClosedBy {
    /// Reference in the system note.
    pub text: String,
    /// The cause.
    pub closer: Closer,
}

/// A merge request or commit that closes an issue. The system note is hidden from users who cannot see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closer {
    /// The merge request with this ID.
    MergeRequest(i64),
    /// A commit of the project with this ID.
    CommitInProject(i64),
}

impl ClosedBy {
    /// Returns the system note of the change.
    fn note(&self, issue: NoteableId, author: i64) -> notes::ActiveModel {
        let text = format!("{CLOSED_VIA}{}", self.text);
        match self.closer {
            Closer::MergeRequest(id) => {
                system_notes::cross_reference(issue, NoteableId::MergeRequest(id), Some(author), text)
            }
            Closer::CommitInProject(project_id) => {
                system_notes::commit_reference(issue, project_id, author, text)
            }
        }
    }
}

/// Attribute names, for the error of an update without any.
const ATTRIBUTES: [&str; 14] = [
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

/// Updates an issue. Does nothing if no value differs. Metadata is ignored if the caller is not a member.
///
/// # Errors
/// Returns `Error::NotFound` if the issue does not exist. Returns `Error::Forbidden` if the caller may not
/// edit it. Returns `Error::InvalidAttributes` if an attribute is invalid. Returns `Error::InvalidParameters`
/// if no attribute is given.
pub async fn update(
    backend: &Backend,
    access: &ProjectAccess,
    iid: i64,
    update: IssueUpdate,
) -> Result<IssueDetail> {
    if update == IssueUpdate::default() {
        return Err(Error::no_parameters(&ATTRIBUTES));
    }
    let author = access.caller.signed_in()?.id;
    let db = backend.database.read();
    let found = find(db, access, iid).await?;
    if !can_edit(db, access, &found).await? {
        return Err(Error::forbidden());
    }
    let metadata = match access.has_role(Role::Guest) {
        true => update.metadata,
        false => IssueMetadata::default(),
    };
    let mut prepared = metadata.prepare(backend, access).await?;
    let title = update.title.as_deref().map(check_title).transpose()?;
    let updated_at = update.updated_at.filter(|_| access.has_role(Role::Owner));
    let space = SpaceAccess::from(access.clone());
    let confidential = prepared.confidential().unwrap_or(found.confidential);
    let texts = mentions::texts(title, update.description.value());
    let assignees = match prepared.assignee_ids() {
        Some(assignees) => assignees,
        None if confidential && texts.iter().any(|text| has_references(text)) => {
            mentions::assignee_ids(db, &found).await?
        }
        None => Vec::new(),
    };
    let audience = TextAudience::of_issue(&space, confidential, found.author_id, assignees);
    let former_texts = mentions::texts(Some(&found.title), found.description.as_ref());
    let effects = mentions::resolve(backend, &audience, &former_texts, &texts).await?;
    let issue = backend
        .database
        .transaction(async |transaction| {
            prepared.lock(transaction, access).await?;
            let before = lock(transaction, access, iid).await?;
            let mut row = before.clone().into_active_model();
            let mut columns = issues::Model::columns(&mut row);
            let mut notes = columns.set_texts(&before, title, &update.description, author);
            let mut closing_note = None;
            notes.extend(prepared.apply(&mut row, Some(&before)));
            match (update.state_event, before.state) {
                (Some(StateEvent::Close), IssueState::Opened) => {
                    row.state = Set(IssueState::Closed);
                    issues::Model::columns(&mut row).close(author);
                    match &update.closed_by {
                        Some(cause) => closing_note = Some(cause.note(NoteableId::Issue(before.id), author)),
                        None => notes.push("closed".to_owned()),
                    }
                }
                (Some(StateEvent::Reopen), IssueState::Closed) => {
                    row.state = Set(IssueState::Opened);
                    issues::Model::columns(&mut row).reopen();
                    notes.push("reopened".to_owned());
                }
                _ => {}
            }
            let mut links = prepared.link(transaction, access, before.id, false).await?;
            notes.append(&mut links.notes);
            if let Some(updated_at) = updated_at {
                row.updated_at = Set(updated_at);
            }
            let is_unchanged = notes.is_empty() && links.changes.is_empty();
            if is_unchanged && !row_changes::is_changed(&row, &before) {
                return Ok(before);
            }
            row.updated_at = Set(updated_at.unwrap_or_else(now));
            let issue = row.update(transaction).await?;
            let change = IssuableChange {
                other_changes: links.changes,
                ..IssuableChange::updated(Some(author), &before, &issue, notes)
            };
            publish(transaction, change).await?;
            if let Some(note) = closing_note {
                note.insert(transaction).await?;
            }
            let source = TextSource::new(&space, NoteableId::Issue(issue.id), issue.iid, author);
            effects.save(transaction, source, links.newly_assigned).await?;
            Ok::<_, Error>(issue)
        })
        .await?;
    row::load_written(backend, &access.caller, issue).await
}

/// Closes an issue because of a change in a project, if the caller may close it. Does nothing if the issue is
/// closed or cannot be closed. `reference` returns the reference to the cause. Its argument is the full path
/// of the project if the issue belongs to another one.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn close_by_reference(
    backend: &Backend,
    from: &ProjectAccess,
    issue: IssueKey,
    closer: Closer,
    reference: impl FnOnce(&str) -> String,
) -> Result<()> {
    let cause = |path: &str| ClosedBy {
        text: reference(path),
        closer,
    };
    if issue.project_id == from.project.id {
        return close(backend, from, issue.iid, cause("")).await;
    }
    let Some(access) = ProjectAccess::find_visible(backend, &from.caller, issue.project_id).await? else {
        return Ok(());
    };
    let path = urls::project_path(&from.namespace, &from.project);
    close(backend, &access, issue.iid, cause(&path)).await
}

/// Returns the IDs of the issues that a merge request has closed, also if they were reopened since then.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn closed_by_merge_request(
    db: &impl ConnectionTrait,
    merge_request_id: i64,
) -> Result<HashSet<i64>> {
    let closed: Vec<i64> = notes::Entity::find()
        .select_only()
        .column(notes::Column::IssueId)
        .filter(notes::Column::ReferencedMergeRequestId.eq(merge_request_id))
        .filter(notes::Column::IssueId.is_not_null())
        .filter(notes::Column::System.eq(true))
        // Notes about mentions have the same references.
        .filter(notes::Column::Body.starts_with(CLOSED_VIA))
        .into_tuple()
        .all(db)
        .await?;
    Ok(closed.into_iter().collect())
}

async fn close(backend: &Backend, access: &ProjectAccess, iid: i64, cause: ClosedBy) -> Result<()> {
    let is_open = match find(backend.database.read(), access, iid).await {
        Ok(found) => found.state == IssueState::Opened,
        Err(Error::NotFound(_)) => false,
        Err(error) => return Err(error),
    };
    if !is_open || access.project.archived {
        return Ok(());
    }
    let change = IssueUpdate {
        state_event: Some(StateEvent::Close),
        closed_by: Some(cause),
        ..IssueUpdate::default()
    };
    match update(backend, access, iid, change).await {
        Ok(_) | Err(Error::NotFound(_) | Error::Forbidden(_)) => Ok(()),
        Err(error) => Err(error),
    }
}
