//! Writing, changing and removing notes.

use chrono::{DateTime, Utc};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, DatabaseTransaction, EntityTrait, IntoActiveModel};

use super::find;
use super::listing::{Row, of_one};
use super::noteable::{Key, Noteable};
use crate::entities::events::Action;
use crate::entities::notes::{ActiveModel, Entity, Model};
use crate::entities::now;
use crate::entities::project_hooks::Kind;
use crate::error::{Error, Result};
use crate::policy::Role;
use crate::services::Backend;
use crate::services::access::ProjectAccess;
use crate::services::award_emoji::{self, Award, Awardable};
use crate::services::events::{self, NewEvent, Target, TargetType, Told};
use crate::services::preconditions;

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
pub async fn create(backend: &Backend, access: &ProjectAccess, key: Key, new: NewNote) -> Result<Posted> {
    let author = access.caller.signed_in()?;
    check_body(&new.body)?;
    let made = new.created_at.filter(|_| access.holds(Role::Owner));
    let made = made.unwrap_or_else(now);
    backend
        .database
        .transaction(async |transaction| {
            let on = Noteable::lock(transaction, access, key).await?;
            on.check_unlocked(access)?;
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
            tell(transaction, access, author.id, &on, &note).await?;
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
pub async fn edit(backend: &Backend, access: &ProjectAccess, key: Key, id: i64, body: String) -> Result<Row> {
    let editor = access.caller.signed_in()?.id;
    check_body(&body)?;
    backend
        .database
        .transaction(async |transaction| {
            let on = Noteable::lock(transaction, access, key).await?;
            let note = find(transaction, access, &on, id).await?;
            check_may_change(access, &on, &note)?;
            let mut row = note.into_active_model();
            row.body = Set(body);
            row.updated_by_id = Set(Some(editor));
            row.updated_at = Set(now());
            let note = row.update(transaction).await?;
            on.touch(transaction, 0).await?;
            of_one(transaction, &on, note).await
        })
        .await
}

/// Removes a note.
///
/// # Errors
/// 404, 403 as [`edit`], and 412 when it changed after the caller's date.
pub async fn delete(
    backend: &Backend,
    access: &ProjectAccess,
    key: Key,
    id: i64,
    unmodified_since: Option<&str>,
) -> Result<()> {
    backend
        .database
        .transaction(async |transaction| {
            let on = Noteable::lock(transaction, access, key).await?;
            let note = find(transaction, access, &on, id).await?;
            check_may_change(access, &on, &note)?;
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
fn check_may_change(access: &ProjectAccess, on: &Noteable, note: &Model) -> Result<()> {
    on.check_unlocked(access)?;
    let caller = access.caller.as_user().map(|user| user.id);
    let own = caller.is_some() && note.author_id == caller;
    match !note.system && (own || access.holds(Role::Maintainer)) {
        true => Ok(()),
        false => Err(Error::forbidden()),
    }
}

/// How many notes it is in the number that everybody sees: that does not tell of confidential ones.
fn counted(note: &Model) -> i32 {
    i32::from(!note.system && !note.confidential)
}

/// Records that somebody commented, with what hooks are told.
async fn tell(
    transaction: &DatabaseTransaction,
    access: &ProjectAccess,
    author: i64,
    on: &Noteable,
    note: &Model,
) -> Result<()> {
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
        ..NewEvent::new(access.project.id, author, Action::Commented)
    };
    events::record(transaction, event).await
}
