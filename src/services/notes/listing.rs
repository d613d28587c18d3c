//! Notes that are read, with who wrote them.

use std::collections::HashMap;

use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, Order, QueryFilter, QueryOrder};
use storage::entities::notes::{Column, Model};
use storage::entities::users;

use super::noteable::{Key, Noteable};
use super::{find, visible};
use crate::error::Result;
use crate::services::Backend;
use crate::services::kernel::page::{Page, PageRequest};
use crate::services::listing::page_of;
use crate::services::places::Place;

/// A note with what belongs to it.
#[derive(Debug, Clone)]
pub struct Row {
    /// The note.
    pub note: Model,
    /// Who wrote it; nobody when the user is gone.
    pub author: Option<users::Model>,
    /// The number of what it stands on within the project.
    pub iid: Option<i64>,
}

/// In which order to list notes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Filter {
    /// By when they were changed last, instead of when they were made.
    pub by_change: bool,
    /// The oldest first.
    pub ascending: bool,
}

/// A page of the notes on something. Of the same time, that with the lower number is the older.
///
/// # Errors
/// 404, also where the caller may not see what they stand on.
pub async fn list(
    backend: &Backend,
    place: &Place,
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

/// One note on something.
///
/// # Errors
/// 404, also for a note on something else, and where the caller may not see it.
pub async fn read(backend: &Backend, place: &Place, key: Key, id: i64) -> Result<Row> {
    Ok(read_with(backend, place, key, id).await?.0)
}

/// One note on something, and what it stands on.
///
/// # Errors
/// As [`read`].
pub async fn read_with(backend: &Backend, place: &Place, key: Key, id: i64) -> Result<(Row, Noteable)> {
    let db = backend.database.read();
    let on = Noteable::find(db, place, key).await?;
    let note = find(db, place, &on, id).await?;
    Ok((of_one(db, &on, note).await?, on))
}

/// One note with who wrote it.
///
/// # Errors
/// Whatever the database reports.
pub(super) async fn of_one(db: &impl ConnectionTrait, on: &Noteable, note: Model) -> Result<Row> {
    let people = people(db, note.author_id.into_iter()).await?;
    Ok(Row {
        author: note.author_id.and_then(|id| people.get(&id).cloned()),
        iid: on.iid(),
        note,
    })
}

/// Users by their ids.
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
