//! Award emoji on noteables and notes.

mod changes;
mod names;
mod removal;

use std::collections::HashMap;

use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, QueryFilter, QueryOrder};

pub(crate) use changes::enter;
pub use changes::{create, delete};
pub(crate) use names::alone;
pub use removal::remove_all_of;

use storage::entities::award_emoji::{ActiveModel, Column, Entity, Model};
use storage::entities::{notes, users};

use crate::discussion::note_lookup;
use crate::discussion::noteable::{self, Noteable};
use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::query::page_of;
use crate::planning::system_notes::NoteableId;

/// Key of a noteable, or of one of its notes, as a path names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Key of the noteable.
    pub on: noteable::Key,
    /// ID of the note, if the key names one.
    pub note: Option<i64>,
}

/// A noteable or note that is visible to the caller.
#[derive(Debug, Clone)]
pub enum Awardable {
    /// A noteable.
    Noteable(Noteable),
    /// A note and its noteable.
    Note(Box<notes::Model>, Noteable),
}

/// An award emoji with its user.
#[derive(Debug, Clone)]
pub struct Award {
    /// The award emoji.
    pub award: Model,
    /// The user who awarded it.
    pub user: users::Model,
}

/// Returns a page of award emoji in order of creation.
///
/// # Errors
/// Returns `Error::NotFound` if the target does not exist or the caller cannot see it.
pub async fn list(
    backend: &Backend,
    place: &SpaceAccess,
    key: Key,
    page: &PageRequest,
) -> Result<Page<Award>> {
    let db = backend.database.read();
    let to = Awardable::find(db, place, key).await?;
    let wanted = Entity::find().filter(to.holds()).order_by_asc(Column::Id);
    let found = page_of(db, wanted, page).await?;
    let people = users::Entity::find()
        .filter(users::Column::Id.is_in(found.items.iter().map(|award| award.user_id)))
        .all(db)
        .await?;
    let people: HashMap<i64, users::Model> = people.into_iter().map(|user| (user.id, user)).collect();
    // A user removed since the page was read took their award emoji along.
    let items = found.items.into_iter().filter_map(|award| {
        let user = people.get(&award.user_id)?.clone();
        Some(Award { award, user })
    });
    Ok(Page {
        items: items.collect(),
        rest: found.rest,
    })
}

/// Returns one award emoji.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist or belongs to another target.
pub async fn read(backend: &Backend, place: &SpaceAccess, key: Key, id: i64) -> Result<Award> {
    let db = backend.database.read();
    let to = Awardable::find(db, place, key).await?;
    let award = find(db, &to, id).await?;
    let user = users::Entity::find_by_id(award.user_id).one(db).await?;
    let user = user.ok_or_else(|| Error::not_found(""))?;
    Ok(Award { award, user })
}

async fn find(db: &impl ConnectionTrait, to: &Awardable, id: i64) -> Result<Model> {
    let found = Entity::find()
        .filter(to.holds())
        .filter(Column::Id.eq(id))
        .one(db)
        .await?;
    found.ok_or_else(|| Error::not_found(""))
}

impl Awardable {
    /// Finds the target of a key.
    ///
    /// # Errors
    /// Returns `Error::NotFound` if it does not exist or the caller cannot see it.
    async fn find(db: &impl ConnectionTrait, place: &SpaceAccess, key: Key) -> Result<Self> {
        let on = Noteable::find(db, place, key.on).await?;
        Self::within(db, place, on, key.note).await
    }

    /// Like [`Self::find`], for a change: locks the noteable until the transaction ends, so that changes to
    /// its award emoji are serialized.
    ///
    /// # Errors
    /// Returns `Error::NotFound` if it does not exist, was deleted meanwhile, or the caller cannot see it.
    async fn lock(transaction: &DatabaseTransaction, place: &SpaceAccess, key: Key) -> Result<Self> {
        let on = Noteable::lock(transaction, place, key.on).await?;
        Self::within(transaction, place, on, key.note).await
    }

    async fn within(
        db: &impl ConnectionTrait,
        place: &SpaceAccess,
        on: Noteable,
        note: Option<i64>,
    ) -> Result<Self> {
        match note {
            None => Ok(Self::Noteable(on)),
            Some(id) => {
                let note = note_lookup::find(db, place, &on, id).await?;
                Ok(Self::Note(Box::new(note), on))
            }
        }
    }

    /// Returns the noteable.
    fn on(&self) -> &Noteable {
        match self {
            Self::Noteable(on) | Self::Note(_, on) => on,
        }
    }

    /// Returns the ID of the author, or `None` if the user was deleted.
    fn author_id(&self) -> Option<i64> {
        match self {
            Self::Noteable(on) => on.author_id(),
            Self::Note(note, _) => note.author_id,
        }
    }

    /// Returns the condition for award emoji of this target.
    fn holds(&self) -> Expr {
        match self {
            Self::Note(note, _) => Column::NoteId.eq(note.id),
            Self::Noteable(on) => match on.id() {
                NoteableId::Issue(id) => Column::IssueId.eq(id),
                NoteableId::MergeRequest(id) => Column::MergeRequestId.eq(id),
                NoteableId::Snippet(id) => Column::SnippetId.eq(id),
                NoteableId::Epic(id) => Column::EpicId.eq(id),
            },
        }
    }

    /// Returns a new row with only the target set.
    fn row(&self) -> ActiveModel {
        use sea_orm::ActiveValue::Set;

        let mut row = ActiveModel::default();
        match self {
            Self::Note(note, _) => row.note_id = Set(Some(note.id)),
            Self::Noteable(on) => match on.id() {
                NoteableId::Issue(id) => row.issue_id = Set(Some(id)),
                NoteableId::MergeRequest(id) => row.merge_request_id = Set(Some(id)),
                NoteableId::Snippet(id) => row.snippet_id = Set(Some(id)),
                NoteableId::Epic(id) => row.epic_id = Set(Some(id)),
            },
        }
        row
    }
}
