//! Creates, updates and deletes epics.

use chrono::{DateTime, NaiveDate, Utc};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, DatabaseTransaction, DbErr, EntityTrait, IntoActiveModel};
use storage::database::Violation;
use storage::entities::epics::{ActiveModel, Entity, Model};
use storage::entities::iid_counters::{self, IidKind};
use storage::entities::issues::IssueState;
use storage::entities::todos::TodoTarget;
use storage::entities::{namespaces, now, row_changes};

use super::{EpicDetail, find, load_detail, lock, parents};
use crate::identity::space_access::SpaceAccess;
use crate::kernel::error::{Error, Result};
use crate::kernel::patch::Patch;
use crate::kernel::policy::Role;
use crate::kernel::{Backend, preconditions};
use crate::planning::epics::labels::EpicLabelUpdate;
use crate::planning::issuables::check_title;
use crate::planning::mentions::{self, TextAudience, TextSource};
use crate::planning::milestones::check_dates;
use crate::planning::state_event::StateEvent;
use crate::planning::system_notes::{self, NoteableId};
use crate::planning::todo_writer;

/// Attributes of a new epic.
#[derive(Debug, Clone, Default)]
pub struct NewEpic {
    /// Title of the epic.
    pub title: String,
    /// Description of the epic.
    pub description: Option<String>,
    /// Titles of the labels.
    pub labels: Vec<String>,
    /// Start date.
    pub start_date: Option<NaiveDate>,
    /// Due date.
    pub due_date: Option<NaiveDate>,
    /// Whether the epic is confidential.
    pub confidential: bool,
    /// ID of the parent epic.
    pub parent_id: Option<i64>,
    /// Time of creation. Ignored unless the caller is an Owner.
    pub created_at: Option<DateTime<Utc>>,
}

/// Attributes to change; absent ones stay.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EpicUpdate {
    /// Title of the epic.
    pub title: Option<String>,
    /// Description of the epic.
    pub description: Patch<String>,
    /// Changes of the labels.
    pub labels: EpicLabelUpdate,
    /// Start date.
    pub start_date: Patch<NaiveDate>,
    /// Due date.
    pub due_date: Patch<NaiveDate>,
    /// Whether the epic is confidential.
    pub confidential: Option<bool>,
    /// ID of the parent epic. Null and 0 both remove the parent.
    pub parent_id: Patch<i64>,
    /// Change of the state.
    pub state_event: Option<StateEvent>,
    /// Time of the update. Ignored unless the caller is an Owner.
    pub updated_at: Option<DateTime<Utc>>,
}

/// Attribute names, for the error of an update without any.
const ATTRIBUTES: [&str; 11] = [
    "title",
    "description",
    "labels",
    "add_labels",
    "remove_labels",
    "start_date",
    "due_date",
    "confidential",
    "parent_id",
    "state_event",
    "updated_at",
];

/// Creates an epic. `created_at` is ignored unless the caller is an Owner.
///
/// # Errors
/// Returns `Error::InvalidAttributes` if the title is blank, the dates are in the wrong order or the parent
/// is invalid.
pub async fn create(backend: &Backend, space: &SpaceAccess, new: NewEpic) -> Result<EpicDetail> {
    let author = space.caller.signed_in()?.id;
    let title = check_title(&new.title)?;
    let created_at = new.created_at.filter(|_| space.has_role(Role::Owner));
    let created_at = created_at.unwrap_or_else(now);
    let parent_id = new.parent_id.filter(|id| *id != 0);
    let audience = TextAudience::of_epic(space, new.confidential, Some(author));
    let texts = mentions::texts(Some(title), new.description.as_ref());
    let effects = mentions::resolve(backend, &audience, &[], &texts).await?;
    let labels = EpicLabelUpdate {
        all: Patch::Set(new.labels.clone()),
        ..EpicLabelUpdate::default()
    };
    let row = ActiveModel {
        author_id: Set(Some(author)),
        created_at: Set(created_at),
        updated_at: Set(created_at),
        ..valid_row(space.namespace.id, new)?
    };
    backend
        .database
        .transaction(async |transaction| {
            lock_location(transaction).await?;
            if let Some(parent_id) = parent_id {
                parents::check(transaction, space, None, parent_id).await?;
            }
            let iid = iid_counters::next(transaction, space.scope(), IidKind::Epics).await;
            let row = ActiveModel {
                iid: Set(iid.map_err(map_database_error)?),
                ..row
            };
            let epic = row.insert(transaction).await.map_err(map_database_error)?;
            labels.save(transaction, space, epic.id).await?;
            effects
                .save(transaction, text_source(space, &epic, author), Vec::new())
                .await?;
            load_detail(transaction, space, epic).await
        })
        .await
}

/// Blocks transfers of groups until the transaction ends, so that parents and labels of ancestor groups remain
/// available.
async fn lock_location(transaction: &DatabaseTransaction) -> Result<()> {
    Ok(namespaces::lock_trees_shared(transaction).await?)
}

/// Returns the row of a valid open epic, without IID, author and times.
///
/// # Errors
/// Returns `Error::InvalidAttributes` if the title is blank or the dates are in the wrong order.
pub(crate) fn valid_row(group_id: i64, new: NewEpic) -> Result<ActiveModel> {
    let title = check_title(&new.title)?;
    check_dates(new.start_date, new.due_date)?;
    Ok(ActiveModel {
        namespace_id: Set(group_id),
        parent_id: Set(new.parent_id.filter(|id| *id != 0)),
        title: Set(title.to_owned()),
        description: Set(new.description.filter(|text| !text.is_empty())),
        state: Set(IssueState::Opened),
        confidential: Set(new.confidential),
        start_date: Set(new.start_date),
        due_date: Set(new.due_date),
        ..Default::default()
    })
}

/// Updates an epic. Does nothing if no value differs. `updated_at` is ignored unless the caller is an Owner.
///
/// # Errors
/// Returns `Error::NotFound` if the epic does not exist. Returns `Error::Forbidden` if the caller is neither
/// its author nor a Reporter. Returns `Error::InvalidParameters` if no attribute is given. Otherwise fails
/// like [`create`].
pub async fn update(
    backend: &Backend,
    space: &SpaceAccess,
    iid: i64,
    update: EpicUpdate,
) -> Result<EpicDetail> {
    if update == EpicUpdate::default() {
        return Err(Error::no_parameters(&ATTRIBUTES));
    }
    let editor = space.caller.signed_in()?.id;
    update
        .title
        .as_deref()
        .map_or(Ok(()), |title| check_title(title).map(drop))?;
    let found = find(backend.database.read(), space, iid).await?;
    if found.author_id != Some(editor) && !space.has_role(Role::Reporter) {
        return Err(Error::forbidden());
    }
    let confidential = update.confidential.unwrap_or(found.confidential);
    let audience = TextAudience::of_epic(space, confidential, found.author_id);
    let effects = mentions::resolve(
        backend,
        &audience,
        &mentions::texts(Some(&found.title), found.description.as_ref()),
        &mentions::texts(update.title.as_deref(), update.description.value()),
    )
    .await?;
    backend
        .database
        .transaction(async |transaction| {
            if !update.parent_id.is_keep() || update.labels != EpicLabelUpdate::default() {
                lock_location(transaction).await?;
            }
            if let Patch::Set(parent_id) = update.parent_id
                && parent_id != 0
            {
                parents::check(transaction, space, Some(found.id), parent_id).await?;
            }
            let before = lock(transaction, space, iid).await?;
            let labels_changed = update.labels.save(transaction, space, before.id).await?;
            let changed = update_row(transaction, space, editor, &before, update, labels_changed).await?;
            if changed.is_some() {
                todo_writer::complete(transaction, editor, TodoTarget::Epic(before.id)).await?;
            }
            let epic = changed.unwrap_or(before);
            effects
                .save(transaction, text_source(space, &epic, editor), Vec::new())
                .await?;
            load_detail(transaction, space, epic).await
        })
        .await
}

/// Returns the epic as a source of text.
fn text_source<'a>(space: &'a SpaceAccess, epic: &Model, author_id: i64) -> TextSource<'a> {
    TextSource::new(space, NoteableId::Epic(epic.id), epic.iid, author_id)
}

/// Applies the columns of an update and creates its system notes. Returns `None` and writes nothing if neither a
/// column nor the labels change.
async fn update_row(
    transaction: &DatabaseTransaction,
    space: &SpaceAccess,
    editor: i64,
    before: &Model,
    update: EpicUpdate,
    labels_changed: bool,
) -> Result<Option<Model>> {
    let mut row = before.clone().into_active_model();
    let mut notes = Vec::new();
    if let Some(title) = update.title.as_deref().map(str::trim)
        && title != before.title
    {
        row.title = Set(title.to_owned());
        notes.push(system_notes::title_changed(&before.title, title));
    }
    if !update.description.is_keep() {
        let description = update.description.into_value().filter(|text| !text.is_empty());
        if description != before.description {
            row.description = Set(description);
            notes.push("changed the description".to_owned());
        }
    }
    if !notes.is_empty() {
        row.last_edited_at = Set(Some(now()));
        row.last_edited_by_id = Set(Some(editor));
    }
    let start_date = updated_date(&update.start_date, before.start_date);
    let due_date = updated_date(&update.due_date, before.due_date);
    check_dates(start_date, due_date)?;
    row.start_date = Set(start_date);
    row.due_date = Set(due_date);
    if due_date != before.due_date {
        notes.push(system_notes::due_date_changed(due_date));
    }
    if let Some(confidential) = update
        .confidential
        .filter(|confidential| *confidential != before.confidential)
    {
        row.confidential = Set(confidential);
        let note = match confidential {
            true => "made the epic confidential",
            false => "made the epic visible to everyone",
        };
        notes.push(note.to_owned());
    }
    match update.parent_id {
        Patch::Keep => {}
        Patch::Clear | Patch::Set(0) => row.parent_id = Set(None),
        Patch::Set(id) => row.parent_id = Set(Some(id)),
    }
    match (update.state_event, before.state) {
        (Some(StateEvent::Close), IssueState::Opened) => {
            row.state = Set(IssueState::Closed);
            row.closed_at = Set(Some(now()));
            row.closed_by_id = Set(Some(editor));
            notes.push("closed".to_owned());
        }
        (Some(StateEvent::Reopen), IssueState::Closed) => {
            row.state = Set(IssueState::Opened);
            row.closed_at = Set(None);
            row.closed_by_id = Set(None);
            notes.push("reopened".to_owned());
        }
        _ => {}
    }
    let updated_at = update.updated_at.filter(|_| space.has_role(Role::Owner));
    if let Some(updated_at) = updated_at {
        row.updated_at = Set(updated_at);
    }
    if !labels_changed && !row_changes::is_changed(&row, before) {
        return Ok(None);
    }
    row.updated_at = Set(updated_at.unwrap_or_else(now));
    let epic = row.update(transaction).await?;
    system_notes::write(transaction, NoteableId::Epic(epic.id), Some(editor), notes).await?;
    Ok(Some(epic))
}

/// Deletes an epic with its notes. Its issues and child epics stay, and its IID is not reused.
///
/// # Errors
/// Returns `Error::NotFound` if the epic does not exist. Returns `Error::PreconditionFailed` if it changed
/// after `unmodified_since`.
pub async fn delete(
    backend: &Backend,
    space: &SpaceAccess,
    iid: i64,
    unmodified_since: Option<&str>,
) -> Result<()> {
    backend
        .database
        .transaction(async |transaction| {
            let epic = lock(transaction, space, iid).await?;
            preconditions::check_unmodified_since(unmodified_since, epic.updated_at)?;
            Entity::delete_by_id(epic.id).exec(transaction).await?;
            Ok(())
        })
        .await
}

/// Returns the date after an update.
fn updated_date(patch: &Patch<NaiveDate>, before: Option<NaiveDate>) -> Option<NaiveDate> {
    patch.as_update().map_or(before, |date| date.copied())
}

/// Maps a database error of an insert or update.
fn map_database_error(error: DbErr) -> Error {
    match Violation::of(&error) {
        // The group was deleted meanwhile.
        Some(Violation::ForeignKey(_)) => Error::not_found("Group"),
        _ => error.into(),
    }
}
