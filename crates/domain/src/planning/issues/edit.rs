//! Updates issues.

use chrono::{DateTime, Utc};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, IntoActiveModel, TryIntoModel};
use storage::entities::issues::IssueState;
use storage::entities::{issues, notes, now};

use super::metadata::Metadata;
use super::row::{self, Row};
use super::{find, lock, may_edit};
use crate::identity::access::ProjectAccess;
use crate::identity::space_access::SpaceAccess;
use crate::kernel::error::{Error, Result};
use crate::kernel::patch::Patch;
use crate::kernel::policy::Role;
use crate::kernel::text::references::has_references;
use crate::kernel::{Backend, urls};
use crate::planning::issuables::{IssuableRow, check_title};
use crate::planning::issues::events::{Told, tell_with};
use crate::planning::mentions::{self, Scene, Written};
use crate::planning::state_event::StateEvent;
use crate::planning::system_notes::{self, NoteableId};

/// Attributes to change; absent ones stay.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Change {
    /// Title of the issue.
    pub title: Option<String>,
    /// Description of the issue.
    pub description: Patch<String>,
    /// Change of the state.
    pub state_event: Option<StateEvent>,
    /// Attributes that only members can set.
    pub metadata: Metadata,
    /// Time of the change. Ignored unless the caller is an Owner.
    pub updated_at: Option<DateTime<Utc>>,
    /// Cause of closing the issue, if it was not closed directly.
    pub via: Option<Via>,
}

/// Cause of closing an issue on behalf of a user.
#[derive(Debug, Clone, PartialEq)]
pub struct Via {
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
    CommitOf(i64),
}

impl Via {
    /// Returns the system note of the change.
    fn note(&self, on: NoteableId, author: i64) -> notes::ActiveModel {
        let text = format!("closed via {}", self.text);
        match self.closer {
            Closer::MergeRequest(id) => {
                system_notes::naming(on, NoteableId::MergeRequest(id), Some(author), text)
            }
            Closer::CommitOf(project_id) => system_notes::naming_commit(on, project_id, author, text),
        }
    }
}

/// Attribute names, for the error of an update without any.
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

/// Updates an issue. Does nothing if no value differs. Metadata is ignored if the caller is not a member.
///
/// # Errors
/// Returns `Error::NotFound` if the issue does not exist. Returns `Error::Forbidden` if the caller may not
/// edit it. Returns `Error::InvalidAttributes` if an attribute is invalid. Returns `Error::InvalidParameters`
/// if no attribute is given.
pub async fn edit(backend: &Backend, access: &ProjectAccess, iid: i64, change: Change) -> Result<Row> {
    if change == Change::default() {
        return Err(Error::no_parameters(&FIELDS));
    }
    let author = access.caller.signed_in()?.id;
    let db = backend.database.read();
    let found = find(db, access, iid).await?;
    if !may_edit(db, access, &found).await? {
        return Err(Error::forbidden());
    }
    let said = match access.has_role(Role::Guest) {
        true => change.metadata,
        false => Metadata::default(),
    };
    let mut prepared = said.prepare(backend, access).await?;
    let title = change.title.as_deref().map(check_title).transpose()?;
    let changed = change.updated_at.filter(|_| access.has_role(Role::Owner));
    let place = SpaceAccess::from(access.clone());
    let confidential = prepared.confidential().unwrap_or(found.confidential);
    let said = mentions::texts(title, change.description.value());
    let readers = match prepared.assignee_ids() {
        Some(readers) => readers,
        None if confidential && said.iter().any(|text| has_references(text)) => {
            mentions::assignees(db, &found).await?
        }
        None => Vec::new(),
    };
    let scene = Scene::of_issue(&place, confidential, found.author_id, readers);
    let before = mentions::texts(Some(&found.title), found.description.as_ref());
    let said = mentions::listen(backend, &scene, &before, &said).await?;
    let issue = backend
        .database
        .transaction(async |transaction| {
            prepared.hold(transaction, access).await?;
            let before = lock(transaction, access, iid).await?;
            let mut row = before.clone().into_active_model();
            let mut columns = issues::Model::columns(&mut row);
            let mut notes = columns.edit(&before, title, &change.description, author);
            let mut closed_via = None;
            notes.extend(prepared.enter(&mut row, Some(&before)));
            match (change.state_event, before.state) {
                (Some(StateEvent::Close), IssueState::Opened) => {
                    row.state = Set(IssueState::Closed);
                    issues::Model::columns(&mut row).close(author);
                    match &change.via {
                        Some(via) => closed_via = Some(via.note(NoteableId::Issue(before.id), author)),
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
            let mut outcome = prepared.attach(transaction, access, before.id, false).await?;
            notes.append(&mut outcome.notes);
            let stays = notes.is_empty() && outcome.changes.is_empty() && changed.is_none();
            if stays && row.clone().try_into_model()? == before {
                return Ok(before);
            }
            row.updated_at = Set(changed.unwrap_or_else(now));
            let issue = row.update(transaction).await?;
            let told = Told {
                access,
                author,
                before: Some(&before),
                after: &issue,
            };
            tell_with(transaction, told, notes, outcome.changes).await?;
            if let Some(note) = closed_via {
                note.insert(transaction).await?;
            }
            let written = Written::on(&place, NoteableId::Issue(issue.id), issue.iid, author);
            said.enter(transaction, written, outcome.newly_assigned).await?;
            Ok::<_, Error>(issue)
        })
        .await?;
    row::of_one(backend, &access.caller, issue).await
}

/// Closes an issue because of a change in a project, if the caller may close it. Does nothing if the issue is
/// closed or cannot be closed. `named` returns the reference to the cause. Its argument is the full path of
/// the project if the issue belongs to another one.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn close_from(
    backend: &Backend,
    from: &ProjectAccess,
    issue: &issues::Model,
    closer: Closer,
    named: impl FnOnce(&str) -> String,
) -> Result<()> {
    let via = |path: &str| Via {
        text: named(path),
        closer,
    };
    if issue.project_id == from.project.id {
        return close(backend, from, issue.iid, via("")).await;
    }
    let Some(access) = ProjectAccess::find_visible(backend, &from.caller, issue.project_id).await? else {
        return Ok(());
    };
    let path = urls::project_path(&from.namespace, &from.project);
    close(backend, &access, issue.iid, via(&path)).await
}

async fn close(backend: &Backend, access: &ProjectAccess, iid: i64, via: Via) -> Result<()> {
    let open = match find(backend.database.read(), access, iid).await {
        Ok(found) => found.state == IssueState::Opened,
        Err(Error::NotFound(_)) => false,
        Err(error) => return Err(error),
    };
    if !open || access.project.archived {
        return Ok(());
    }
    let change = Change {
        state_event: Some(StateEvent::Close),
        via: Some(via),
        ..Change::default()
    };
    match edit(backend, access, iid, change).await {
        Ok(_) | Err(Error::NotFound(_) | Error::Forbidden(_)) => Ok(()),
        Err(error) => Err(error),
    }
}
