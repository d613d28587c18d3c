//! Writing, changing and removing notes.

use chrono::{DateTime, Utc};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, DatabaseTransaction, EntityTrait, IntoActiveModel};
use storage::entities::events::Action;
use storage::entities::notes::{ActiveModel, Entity, Model};
use storage::entities::now;
use storage::entities::project_hooks::Kind;

use super::find;
use super::listing::{Row, of_one, read};
use super::noteable::{Key, Noteable};
use crate::error::{Error, Result};
use crate::policy::Role;
use crate::services::Backend;
use crate::services::award_emoji::{self, Award, Awardable};
use crate::services::events::{self, NewEvent, Target, TargetType, Told};
use crate::services::places::Place;
use crate::services::preconditions;
use crate::services::saying::{self, Said, Written};
use crate::services::todos;

/// A new note.
#[derive(Debug, Clone, Default)]
pub struct NewNote {
    /// What it says.
    pub body: String,
    /// Only its author, and members from Reporter on, are to see it.
    pub confidential: bool,
    /// When it was made, for owners.
    pub created_at: Option<DateTime<Utc>>,
}

/// What became of what was to be a note.
#[derive(Debug, Clone)]
pub enum Posted {
    /// It is one.
    Note(Box<Row>),
    /// It named an emoji, which was awarded.
    Award(Box<Award>),
}

/// Writes a note on something; a note that says nothing but the name of an emoji awards that instead.
///
/// # Errors
/// 400 for a blank note, 404 where the caller may not see the thing and for an emoji that was awarded already, 403 for
/// others than members where the discussion is locked.
pub async fn create(backend: &Backend, place: &Place, key: Key, new: NewNote) -> Result<Posted> {
    let author = place.caller.signed_in()?;
    check_body(&new.body)?;
    let made = new.created_at.filter(|_| place.holds(Role::Owner));
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
                ..on.parent().row()
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

/// Changes what a note says.
///
/// # Errors
/// 400 for a blank text, 404, and 403 for others than its author and Maintainers, for everybody where nobody wrote it.
pub async fn edit(backend: &Backend, place: &Place, key: Key, id: i64, body: String) -> Result<Row> {
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

/// What follows from what a note says and did not say before.
async fn listen(backend: &Backend, place: &Place, key: Key, before: &str, new: &NewNote) -> Result<Said> {
    if saying::is_silent(&new.body) {
        return Ok(Said::default());
    }
    let db = backend.database.read();
    let on = Noteable::find(db, place, key).await?;
    match on.scene(db, place).await? {
        Some(scene) => saying::listen(backend, &scene.note(new.confidential), &[before], &[&new.body]).await,
        None => Ok(Said::default()),
    }
}

/// Enters what follows from a note: what waited there for who wrote it is done.
async fn follow(
    transaction: &DatabaseTransaction,
    place: &Place,
    author_id: i64,
    on: &Noteable,
    note: &Model,
    said: Said,
) -> Result<()> {
    let (Some(target), Some(iid)) = (on.parent().todo_target(), on.iid()) else {
        return Ok(());
    };
    todos::settle(transaction, author_id, target).await?;
    let written = Written::on(place, on.parent(), iid, author_id).note(note.id);
    said.enter(transaction, written, Vec::new()).await
}

/// Removes a note.
///
/// # Errors
/// 404, 403 as [`edit`], and 412 when it changed after the caller's date.
pub async fn delete(
    backend: &Backend,
    place: &Place,
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
            preconditions::unmodified_since(unmodified_since, note.updated_at)?;
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

/// Whether the caller, who sees a note, may change and remove it.
///
/// # Errors
/// 403.
fn check_may_change(place: &Place, on: &Noteable, note: &Model) -> Result<()> {
    on.check_unlocked(place)?;
    let caller = place.caller.as_user().map(|user| user.id);
    let own = caller.is_some() && note.author_id == caller;
    match !note.system && (own || place.holds(Role::Maintainer)) {
        true => Ok(()),
        false => Err(Error::forbidden()),
    }
}

/// How many notes it is in the number that everybody sees: that does not tell of confidential ones.
fn counted(note: &Model) -> i32 {
    i32::from(!note.system && !note.confidential)
}

/// Records that somebody commented, with what hooks are told; groups have no record.
async fn tell(
    transaction: &DatabaseTransaction,
    place: &Place,
    author: i64,
    on: &Noteable,
    note: &Model,
) -> Result<()> {
    let Some(project) = &place.project else {
        return Ok(());
    };
    let kind = match on.is_confidential() || note.confidential {
        true => Kind::ConfidentialNote,
        false => Kind::Note,
    };
    let event = NewEvent {
        target: Some(Target {
            kind: TargetType::Note,
            id: note.id,
            iid: None,
            title: Some(on.title().to_owned()),
        }),
        told: Some(Told { kind, branch: None }),
        ..NewEvent::new(project.id, author, Action::Commented)
    };
    events::record(transaction, event).await
}
