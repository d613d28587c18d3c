//! Creates, updates and deletes notes.

use chrono::{DateTime, Utc};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, DatabaseTransaction, EntityTrait, IntoActiveModel};
use storage::entities::events::EventAction;
use storage::entities::notes::{ActiveModel, Entity, Model};
use storage::entities::now;
use storage::entities::project_hooks::HookEvent;

use super::listing::{NoteDetail, detail, get};
use crate::activity::events::{self, EventTarget, EventTargetType, NewEvent};
use crate::activity::outbox::WebhookTarget;
use crate::discussion::award_emoji::{self, AwardEmojiDetail, Awardable};
use crate::discussion::note_lookup::find;
use crate::discussion::noteable::{Noteable, NoteableKey};
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

/// The result of the creation of a note.
#[derive(Debug, Clone)]
pub enum NoteOrAwardEmoji {
    /// A note.
    Note(Box<NoteDetail>),
    /// An award emoji, because the text was only the name of an emoji.
    AwardEmoji(Box<AwardEmojiDetail>),
}

/// Creates a note. A note that consists only of an emoji name creates an award emoji instead, unless it is
/// confidential: award emoji are visible to all users who can see the noteable.
///
/// # Errors
/// Returns a validation error for a blank note. Returns `NotFound` if the noteable is not visible or the
/// emoji was awarded already. Returns `Forbidden` for non-members if the discussion is locked.
pub async fn create(
    backend: &Backend,
    space: &SpaceAccess,
    key: NoteableKey,
    new: NewNote,
) -> Result<NoteOrAwardEmoji> {
    let author = space.caller.signed_in()?;
    check_body(&new.body)?;
    let created_at = new.created_at.filter(|_| space.has_role(Role::Owner));
    let created_at = created_at.unwrap_or_else(now);
    let effects = resolve_references(backend, space, key, "", &new).await?;
    backend
        .database
        .transaction(async |transaction| {
            let noteable = Noteable::lock(transaction, space, key).await?;
            noteable.check_unlocked(space)?;
            if !new.confidential
                && let Some(name) = award_emoji::sole_emoji(&new.body)
            {
                let awardable = Awardable::Noteable(noteable);
                let award_emoji = award_emoji::insert(transaction, author, &awardable, name).await?;
                return Ok(NoteOrAwardEmoji::AwardEmoji(Box::new(award_emoji)));
            }
            let row = ActiveModel {
                author_id: Set(Some(author.id)),
                body: Set(new.body),
                system: Set(false),
                confidential: Set(new.confidential),
                created_at: Set(created_at),
                updated_at: Set(created_at),
                ..noteable.id().row()
            };
            let note = row.insert(transaction).await?;
            noteable.touch(transaction, public_count(&note)).await?;
            record_event(transaction, space, author.id, &noteable, &note).await?;
            apply_effects(transaction, space, author.id, &noteable, &note, effects).await?;
            Ok(NoteOrAwardEmoji::Note(Box::new(NoteDetail {
                author: Some(author.clone()),
                iid: noteable.iid(),
                note,
            })))
        })
        .await
}

/// Updates the text of a note. Does nothing if the note has the text already.
///
/// # Errors
/// Returns a validation error for a blank text and `NotFound` if the note is not visible. Returns `Forbidden`
/// unless the caller is the author or a Maintainer, and always for system notes.
pub async fn update(
    backend: &Backend,
    space: &SpaceAccess,
    key: NoteableKey,
    id: i64,
    body: String,
) -> Result<NoteDetail> {
    let editor_id = space.caller.signed_in()?.id;
    check_body(&body)?;
    let before = get(backend, space, key, id).await?.note;
    let new = NewNote {
        body,
        confidential: before.confidential,
        created_at: None,
    };
    let effects = resolve_references(backend, space, key, &before.body, &new).await?;
    backend
        .database
        .transaction(async |transaction| {
            let noteable = Noteable::lock(transaction, space, key).await?;
            let note = find(transaction, space, &noteable, id).await?;
            check_can_change(space, &noteable, &note)?;
            if note.body == new.body {
                return detail(transaction, &noteable, note).await;
            }
            let mut row = note.into_active_model();
            row.body = Set(new.body);
            row.updated_by_id = Set(Some(editor_id));
            row.updated_at = Set(now());
            let note = row.update(transaction).await?;
            noteable.touch(transaction, 0).await?;
            apply_effects(transaction, space, editor_id, &noteable, &note, effects).await?;
            detail(transaction, &noteable, note).await
        })
        .await
}

/// Resolves mentions and references in the text that were not in the previous one.
async fn resolve_references(
    backend: &Backend,
    space: &SpaceAccess,
    key: NoteableKey,
    before: &str,
    new: &NewNote,
) -> Result<TextEffects> {
    if !has_references(&new.body) {
        return Ok(TextEffects::default());
    }
    let db = backend.database.read();
    let noteable = Noteable::find(db, space, key).await?;
    match noteable.text_audience(db, space).await? {
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
async fn apply_effects(
    transaction: &DatabaseTransaction,
    space: &SpaceAccess,
    author_id: i64,
    noteable: &Noteable,
    note: &Model,
    effects: TextEffects,
) -> Result<()> {
    let (Some(target), Some(iid)) = (noteable.id().todo_target(), noteable.iid()) else {
        return Ok(());
    };
    todo_writer::complete(transaction, author_id, target).await?;
    let source = TextSource::new(space, noteable.id(), iid, author_id).for_note(note.id);
    effects.save(transaction, source, Vec::new()).await
}

/// Deletes a note.
///
/// # Errors
/// Returns `NotFound` if the note is not visible, `Forbidden` as [`update`], and `PreconditionFailed` if it was
/// modified after the given date.
pub async fn delete(
    backend: &Backend,
    space: &SpaceAccess,
    key: NoteableKey,
    id: i64,
    unmodified_since: Option<&str>,
) -> Result<()> {
    backend
        .database
        .transaction(async |transaction| {
            let noteable = Noteable::lock(transaction, space, key).await?;
            let note = find(transaction, space, &noteable, id).await?;
            check_can_change(space, &noteable, &note)?;
            preconditions::check_unmodified_since(unmodified_since, note.updated_at)?;
            Entity::delete_by_id(id).exec(transaction).await?;
            noteable.touch(transaction, -public_count(&note)).await
        })
        .await
}

fn check_body(body: &str) -> Result<()> {
    match body.trim().is_empty() {
        true => Err(Error::attribute("body", "can't be blank")),
        false => Ok(()),
    }
}

/// Rejects callers who cannot update and delete the note.
///
/// # Errors
/// Returns `Forbidden` unless the caller is the author or a Maintainer, and always for system notes.
fn check_can_change(space: &SpaceAccess, noteable: &Noteable, note: &Model) -> Result<()> {
    noteable.check_unlocked(space)?;
    let caller_id = space.caller.as_user().map(|user| user.id);
    let is_author = caller_id.is_some() && note.author_id == caller_id;
    match !note.system && (is_author || space.has_role(Role::Maintainer)) {
        true => Ok(()),
        false => Err(Error::forbidden()),
    }
}

/// Returns 1 if a note counts in the public number of notes, which excludes confidential ones, otherwise 0.
fn public_count(note: &Model) -> i32 {
    i32::from(!note.system && !note.confidential)
}

/// Records a comment event with its webhook data; groups have no events.
async fn record_event(
    transaction: &DatabaseTransaction,
    space: &SpaceAccess,
    author_id: i64,
    noteable: &Noteable,
    note: &Model,
) -> Result<()> {
    let Some(project) = &space.project else {
        return Ok(());
    };
    let kind = match noteable.is_confidential() || note.confidential {
        true => HookEvent::ConfidentialNote,
        false => HookEvent::Note,
    };
    let event = NewEvent {
        target: Some(EventTarget {
            kind: EventTargetType::Note,
            id: note.id,
            iid: None,
            title: Some(noteable.title().to_owned()),
        }),
        webhook_target: Some(WebhookTarget { kind, branch: None }),
        ..NewEvent::new(project.id, author_id, EventAction::Commented)
    };
    events::record(transaction, event).await
}
