//! Returns notes with their authors.

use std::collections::HashMap;

use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, Order, QueryFilter, QueryOrder};
use storage::entities::columns;
use storage::entities::notes::{Column, Model};
use storage::entities::users;

use crate::discussion::note_lookup::visible;
use crate::discussion::noteable::{Noteable, NoteableKey};
use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::query::page_with_texts;

/// A note with its author and noteable.
#[derive(Debug, Clone)]
pub struct NoteDetail {
    /// The note.
    pub note: Model,
    /// The author; `None` if the user was deleted.
    pub author: Option<users::Model>,
    /// The IID of the noteable within its project or group.
    pub iid: Option<i64>,
}

/// Sort order of a list of notes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NoteSort {
    /// Whether to sort by the time of the last update instead of creation.
    pub by_update: bool,
    /// Whether the oldest note is first.
    pub ascending: bool,
}

/// Lists the notes on a noteable. Of notes with the same time, the one with the lower ID is older.
///
/// # Errors
/// Returns `NotFound` if the noteable does not exist or is not visible to the caller.
pub async fn list(
    backend: &Backend,
    space: &SpaceAccess,
    key: NoteableKey,
    sort: NoteSort,
    page: &PageRequest,
) -> Result<Page<NoteDetail>> {
    let db = backend.database.read();
    let noteable = Noteable::find(db, space, key).await?;
    let column = match sort.by_update {
        true => Column::UpdatedAt,
        false => Column::CreatedAt,
    };
    let direction = match sort.ascending {
        true => Order::Asc,
        false => Order::Desc,
    };
    let query = visible(space, &noteable)
        .order_by(column, direction.clone())
        .order_by(Column::Id, direction);
    let notes = page_with_texts(db, &space.caller, query, page).await?;
    let authors = notes.items.iter().filter_map(|note| note.author_id);
    let authors = users_by_id(db, authors).await?;
    Ok(notes.map(|note| NoteDetail {
        author: note.author_id.and_then(|id| authors.get(&id).cloned()),
        iid: noteable.iid(),
        note,
    }))
}

/// Returns a note on a noteable.
///
/// # Errors
/// Returns `NotFound` if the note does not exist, belongs to another noteable or is not visible to the
/// caller.
pub async fn get(backend: &Backend, space: &SpaceAccess, key: NoteableKey, id: i64) -> Result<NoteDetail> {
    Ok(get_with_noteable(backend, space, key, id).await?.0)
}

/// Returns a note and its noteable.
///
/// # Errors
/// Returns the errors of [`get`].
pub async fn get_with_noteable(
    backend: &Backend,
    space: &SpaceAccess,
    key: NoteableKey,
    id: i64,
) -> Result<(NoteDetail, Noteable)> {
    let db = backend.database.read();
    let noteable = Noteable::find(db, space, key).await?;
    let found = visible(space, &noteable)
        .filter(Column::Id.eq(id))
        .find_also_related(users::Entity)
        .one(db)
        .await?;
    let (note, author) = found.ok_or_else(|| Error::not_found(""))?;
    let detail = NoteDetail {
        iid: noteable.iid(),
        note,
        author,
    };
    Ok((detail, noteable))
}

/// Returns a note with its author.
///
/// # Errors
/// Returns an error if a database query fails.
pub(super) async fn detail(
    db: &impl ConnectionTrait,
    noteable: &Noteable,
    note: Model,
) -> Result<NoteDetail> {
    let authors = users_by_id(db, note.author_id.into_iter()).await?;
    Ok(NoteDetail {
        author: note.author_id.and_then(|id| authors.get(&id).cloned()),
        iid: noteable.iid(),
        note,
    })
}

/// Returns users by their IDs.
async fn users_by_id(
    db: &impl ConnectionTrait,
    ids: impl Iterator<Item = i64>,
) -> Result<HashMap<i64, users::Model>> {
    let users = users::Entity::find().filter(users::Column::Id.is_in(ids));
    let users = columns::all(db, users).await?;
    Ok(users.into_iter().map(|user| (user.id, user)).collect())
}
