//! Reads of notes with their authors.

use std::collections::HashMap;

use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, Order, QueryFilter, QueryOrder};
use storage::entities::notes::{Column, Model};
use storage::entities::users;

use crate::discussion::note_lookup::{find, visible};
use crate::discussion::noteable::{Key, Noteable};
use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::query::page_of;

/// A note with its author and noteable.
#[derive(Debug, Clone)]
pub struct Row {
    /// The note.
    pub note: Model,
    /// The author; `None` if the user was deleted.
    pub author: Option<users::Model>,
    /// The IID of the noteable within its project or group.
    pub iid: Option<i64>,
}

/// Sort order of a list of notes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Filter {
    /// Whether to sort by the time of the last update instead of creation.
    pub by_change: bool,
    /// Whether the oldest come first.
    pub ascending: bool,
}

/// Lists the notes on a noteable. Of notes with the same time, the one with the lower ID is older.
///
/// # Errors
/// Returns `NotFound` if the noteable does not exist or is not visible to the caller.
pub async fn list(
    backend: &Backend,
    place: &SpaceAccess,
    key: Key,
    filter: Filter,
    page: &PageRequest,
) -> Result<Page<Row>> {
    let db = backend.database.read();
    let on = Noteable::find(db, place, key).await?;
    let column = match filter.by_change {
        true => Column::UpdatedAt,
        false => Column::CreatedAt,
    };
    let direction = match filter.ascending {
        true => Order::Asc,
        false => Order::Desc,
    };
    let wanted = visible(place, &on)
        .order_by(column, direction.clone())
        .order_by(Column::Id, direction);
    let found = page_of(db, wanted, page).await?;
    let authors = found.items.iter().filter_map(|note| note.author_id);
    let people = people(db, authors).await?;
    Ok(found.map(|note| Row {
        author: note.author_id.and_then(|id| people.get(&id).cloned()),
        iid: on.iid(),
        note,
    }))
}

/// Returns a note on a noteable.
///
/// # Errors
/// Returns `NotFound` if the note does not exist, belongs to another noteable or is not visible to the
/// caller.
pub async fn read(backend: &Backend, place: &SpaceAccess, key: Key, id: i64) -> Result<Row> {
    Ok(read_with(backend, place, key, id).await?.0)
}

/// Returns a note and its noteable.
///
/// # Errors
/// Returns the errors of [`read`].
pub async fn read_with(backend: &Backend, place: &SpaceAccess, key: Key, id: i64) -> Result<(Row, Noteable)> {
    let db = backend.database.read();
    let on = Noteable::find(db, place, key).await?;
    let note = find(db, place, &on, id).await?;
    Ok((of_one(db, &on, note).await?, on))
}

/// Returns a note with its author.
///
/// # Errors
/// Returns an error if a database query fails.
pub(super) async fn of_one(db: &impl ConnectionTrait, on: &Noteable, note: Model) -> Result<Row> {
    let people = people(db, note.author_id.into_iter()).await?;
    Ok(Row {
        author: note.author_id.and_then(|id| people.get(&id).cloned()),
        iid: on.iid(),
        note,
    })
}

/// Returns users by their IDs.
async fn people(
    db: &impl ConnectionTrait,
    ids: impl Iterator<Item = i64>,
) -> Result<HashMap<i64, users::Model>> {
    let found = users::Entity::find()
        .filter(users::Column::Id.is_in(ids))
        .all(db)
        .await?;
    Ok(found.into_iter().map(|user| (user.id, user)).collect())
}
