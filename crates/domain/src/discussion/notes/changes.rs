//! Creates, updates and deletes notes.

use chrono::{DateTime, Utc};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, DatabaseTransaction, EntityTrait, IntoActiveModel};
use storage::entities::events::EventAction;
use storage::entities::notes::{ActiveModel, Entity, Model};
use storage::entities::now;
use storage::entities::project_hooks::HookEvent;

use super::listing::{Row, of_one, read};
use crate::activity::events::{self, EventTargetType, NewEvent, Target};
use crate::activity::outbox::WebhookTarget;
use crate::discussion::award_emoji::{self, Award, Awardable};
use crate::discussion::note_lookup::find;
use crate::discussion::noteable::{Key, Noteable};
use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::policy::Role;
use crate::kernel::preconditions;
use crate::kernel::text::references::has_references;
use crate::planning::mentions::{self, TextEffects, TextSource};
use crate::planning::todo_writer;

/// A new note.
#[derive(Debug, Clone, Default)]
pub struct NewNote {
    /// The text.
    pub body: String,
    /// Whether only the author and members from Reporter can see it.
    pub confidential: bool,
    /// The creation time, which only Owners may set.
    pub created_at: Option<DateTime<Utc>>,
}

/// The result of creating a note.
#[derive(Debug, Clone)]
pub enum Posted {
    /// A note.
    Note(Box<Row>),
    /// An award emoji, because the text was only the name of an emoji.
    Award(Box<Award>),
}

/// Creates a note. A note that consists only of an emoji name creates an award emoji instead.
///
/// # Errors
/// Returns a validation error for a blank note. Returns `NotFound` if the noteable is not visible or the
/// emoji was awarded already. Returns `Forbidden` for non-members if the discussion is locked.
pub async fn create(backend: &Backend, place: &SpaceAccess, key: Key, new: NewNote) -> Result<Posted> {
    let author = place.caller.signed_in()?;
    check_body(&new.body)?;
    let made = new.created_at.filter(|_| place.has_role(Role::Owner));
    let made = made.unwrap_or_else(now);
    let said = listen(backend, place, key, "", &new).await?;
    backend
        .database
        .transaction(async |transaction| {
            let on = Noteable::lock(transaction, place, key).await?;
            on.check_unlocked(place)?;
            if let Some(name) = award_emoji::alone(&new.body) {
                let to = Awardable::Noteable(on);
                let award = award_emoji::enter(transaction, author, &to, name).await?;
                return Ok(Posted::Award(Box::new(award)));
            }
            let row = ActiveModel {
                author_id: Set(Some(author.id)),
                body: Set(new.body),
                system: Set(false),
                confidential: Set(new.confidential),
                created_at: Set(made),
                updated_at: Set(made),
                ..on.id().row()
            };
            let note = row.insert(transaction).await?;
            on.touch(transaction, counted(&note)).await?;
            tell(transaction, place, author.id, &on, &note).await?;
            follow(transaction, place, author.id, &on, &note, said).await?;
            Ok(Posted::Note(Box::new(Row {
                author: Some(author.clone()),
                iid: on.iid(),
                note,
            })))
        })
        .await
}

/// Updates the text of a note.
///
/// # Errors
/// Returns a validation error for a blank text and `NotFound` if the note is not visible. Returns `Forbidden`
/// unless the caller is the author or a Maintainer, and always for system notes.
pub async fn edit(backend: &Backend, place: &SpaceAccess, key: Key, id: i64, body: String) -> Result<Row> {
    let editor = place.caller.signed_in()?.id;
    check_body(&body)?;
    let before = read(backend, place, key, id).await?.note;
    let new = NewNote {
        body,
        confidential: before.confidential,
        created_at: None,
    };
    let said = listen(backend, place, key, &before.body, &new).await?;
    backend
        .database
        .transaction(async |transaction| {
            let on = Noteable::lock(transaction, place, key).await?;
            let note = find(transaction, place, &on, id).await?;
            check_may_change(place, &on, &note)?;
            let mut row = note.into_active_model();
            row.body = Set(new.body);
            row.updated_by_id = Set(Some(editor));
            row.updated_at = Set(now());
            let note = row.update(transaction).await?;
            on.touch(transaction, 0).await?;
            follow(transaction, place, editor, &on, &note, said).await?;
            of_one(transaction, &on, note).await
        })
        .await
}

/// Resolves mentions and references in the text that were not in the previous one.
async fn listen(
    backend: &Backend,
    place: &SpaceAccess,
    key: Key,
    before: &str,
    new: &NewNote,
) -> Result<TextEffects> {
    if !has_references(&new.body) {
        return Ok(TextEffects::default());
    }
    let db = backend.database.read();
    let on = Noteable::find(db, place, key).await?;
    match on.audience(db, place).await? {
        Some(audience) => {
            mentions::resolve(
                backend,
                &audience.for_note(new.confidential),
                &[before],
                &[&new.body],
            )
            .await
        }
        None => Ok(TextEffects::default()),
    }
}

/// Applies the effects of a note, and completes the author's to-do items for the noteable.
async fn follow(
    transaction: &DatabaseTransaction,
    place: &SpaceAccess,
    author_id: i64,
    on: &Noteable,
    note: &Model,
    said: TextEffects,
) -> Result<()> {
    let (Some(target), Some(iid)) = (on.id().todo_target(), on.iid()) else {
        return Ok(());
    };
    todo_writer::complete(transaction, author_id, target).await?;
    let written = TextSource::new(place, on.id(), iid, author_id).for_note(note.id);
    said.save(transaction, written, Vec::new()).await
}

/// Deletes a note.
///
/// # Errors
/// Returns `NotFound` if the note is not visible, `Forbidden` as [`edit`], and `PreconditionFailed` if it was
/// modified after the given date.
pub async fn delete(
    backend: &Backend,
    place: &SpaceAccess,
    key: Key,
    id: i64,
    unmodified_since: Option<&str>,
) -> Result<()> {
    backend
        .database
        .transaction(async |transaction| {
            let on = Noteable::lock(transaction, place, key).await?;
            let note = find(transaction, place, &on, id).await?;
            check_may_change(place, &on, &note)?;
            preconditions::check_unmodified_since(unmodified_since, note.updated_at)?;
            Entity::delete_by_id(id).exec(transaction).await?;
            on.touch(transaction, -counted(&note)).await
        })
        .await
}

fn check_body(body: &str) -> Result<()> {
    match body.trim().is_empty() {
        true => Err(Error::attribute("body", "can't be blank")),
        false => Ok(()),
    }
}

/// Checks that the caller, who can see the note, may update and delete it.
///
/// # Errors
/// Returns `Forbidden` unless the caller may change the note.
fn check_may_change(place: &SpaceAccess, on: &Noteable, note: &Model) -> Result<()> {
    on.check_unlocked(place)?;
    let caller = place.caller.as_user().map(|user| user.id);
    let own = caller.is_some() && note.author_id == caller;
    match !note.system && (own || place.has_role(Role::Maintainer)) {
        true => Ok(()),
        false => Err(Error::forbidden()),
    }
}

/// Returns 1 if a note counts in the public number of notes, which excludes confidential ones, otherwise 0.
fn counted(note: &Model) -> i32 {
    i32::from(!note.system && !note.confidential)
}

/// Records a comment event with its webhook data; groups have no events.
async fn tell(
    transaction: &DatabaseTransaction,
    place: &SpaceAccess,
    author: i64,
    on: &Noteable,
    note: &Model,
) -> Result<()> {
    let Some(project) = &place.project else {
        return Ok(());
    };
    let kind = match on.is_confidential() || note.confidential {
        true => HookEvent::ConfidentialNote,
        false => HookEvent::Note,
    };
    let event = NewEvent {
        target: Some(Target {
            kind: EventTargetType::Note,
            id: note.id,
            iid: None,
            title: Some(on.title().to_owned()),
        }),
        told: Some(WebhookTarget { kind, branch: None }),
        ..NewEvent::new(project.id, author, EventAction::Commented)
    };
    events::record(transaction, event).await
}
