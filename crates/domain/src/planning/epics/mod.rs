//! Epics of groups, which contain issues of the group's projects and subgroups. [`list`] lists them,
//! [`changes`] updates them, and [`issues`] manages their issues.

mod changes;
pub mod issues;
mod labels;
mod list;
mod parents;

pub use self::labels::Labelling;
pub(crate) use changes::checked;
pub use changes::{Change, NewEpic, create, delete, edit};
pub use list::{Filter, Order, list};
pub(crate) use parents::DEEPEST;

use std::collections::{HashMap, HashSet};

use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QuerySelect};
use storage::entities::access::Viewer;
use storage::entities::epics::{self, Column, Entity, Model};
use storage::entities::{epic_labels, labels as label_rows, namespaces, now, users};

use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};

/// An epic with its related rows.
#[derive(Debug, Clone)]
pub struct Row {
    /// The epic.
    pub epic: Model,
    /// Its group.
    pub group: namespaces::Model,
    /// The user who created it, unless deleted.
    pub author: Option<users::Model>,
    /// The labels, sorted by title.
    pub labels: Vec<label_rows::Model>,
}

/// Returns one epic of a group.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist or the caller cannot see it.
pub async fn read(backend: &Backend, place: &SpaceAccess, iid: i64) -> Result<Row> {
    let db = backend.database.read();
    let epic = find(db, place, iid).await?;
    of_one(db, place.caller.viewer(), epic).await
}

/// Returns the ID of an epic of a group.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist or the caller cannot see it.
pub async fn id_of(backend: &Backend, place: &SpaceAccess, iid: i64) -> Result<i64> {
    Ok(find(backend.database.read(), place, iid).await?.id)
}

/// Finds an epic of a group by IID, if the caller can see it.
async fn find(db: &impl ConnectionTrait, place: &SpaceAccess, iid: i64) -> Result<Model> {
    let found = Entity::find()
        .filter(Column::NamespaceId.eq(place.namespace.id))
        .filter(Column::Iid.eq(iid))
        .filter(epics::visible(place.caller.viewer(), now().date_naive()))
        .one(db)
        .await?;
    found.ok_or_else(missing)
}

/// Like [`find`], for a change: locks the epic until the transaction ends.
async fn lock(db: &impl ConnectionTrait, place: &SpaceAccess, iid: i64) -> Result<Model> {
    let found = find(db, place, iid).await?;
    epics::lock(db, found.id).await?.ok_or_else(missing)
}

/// Finds an epic of a group by ID, if the caller can see it.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist, belongs to another group, or the caller cannot see it.
pub(crate) async fn find_by_id(db: &impl ConnectionTrait, place: &SpaceAccess, id: i64) -> Result<Model> {
    // Projects have no epics, and `namespace` is the parent of the project here.
    if place.project.is_some() {
        return Err(missing());
    }
    let found = Entity::find_by_id(id)
        .filter(Column::NamespaceId.eq(place.namespace.id))
        .filter(epics::visible(place.caller.viewer(), now().date_naive()))
        .one(db)
        .await?;
    found.ok_or_else(missing)
}

/// Like [`find_by_id`], for a change: locks the epic until the transaction ends.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist, was deleted meanwhile, or the caller cannot see it.
pub(crate) async fn lock_by_id(db: &impl ConnectionTrait, place: &SpaceAccess, id: i64) -> Result<Model> {
    let found = find_by_id(db, place, id).await?;
    epics::lock(db, found.id).await?.ok_or_else(missing)
}

fn missing() -> Error {
    Error::not_found("Epic")
}

/// Loads the related rows of one epic.
async fn of_one(db: &impl ConnectionTrait, viewer: Viewer, epic: Model) -> Result<Row> {
    decorate(db, viewer, vec![epic]).await?.pop().ok_or_else(missing)
}

/// Loads the related rows of a whole page. Rows deleted meanwhile are left out.
async fn decorate(db: &impl ConnectionTrait, viewer: Viewer, found: Vec<Model>) -> Result<Vec<Row>> {
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let groups = namespaces::Entity::find()
        .filter(namespaces::Column::Id.is_in(found.iter().map(|epic| epic.namespace_id)))
        .all(db)
        .await?;
    let groups: HashMap<i64, namespaces::Model> = groups.into_iter().map(|group| (group.id, group)).collect();
    let authors = users::Entity::find()
        .filter(users::Column::Id.is_in(found.iter().filter_map(|epic| epic.author_id)))
        .all(db)
        .await?;
    let authors: HashMap<i64, users::Model> = authors.into_iter().map(|user| (user.id, user)).collect();
    let found = found.into_iter().filter_map(|epic| {
        let author = epic.author_id.and_then(|id| authors.get(&id).cloned());
        Some((groups.get(&epic.namespace_id)?.clone(), author, epic))
    });
    rows(db, viewer, found.collect()).await
}

/// Loads the related rows that are visible to the viewer, for epics with known groups and authors.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn rows(
    db: &impl ConnectionTrait,
    viewer: Viewer,
    found: Vec<(namespaces::Model, Option<users::Model>, Model)>,
) -> Result<Vec<Row>> {
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let parents = found.iter().filter_map(|(_, _, epic)| epic.parent_id);
    let parents = seen(db, viewer, parents.collect()).await?;
    let mut labels = epic_labels::of(db, found.iter().map(|(_, _, epic)| epic.id)).await?;
    let rows = found.into_iter().map(|(group, author, mut epic)| {
        epic.parent_id = epic.parent_id.filter(|id| parents.contains(id));
        Row {
            group,
            author,
            labels: labels.remove(&epic.id).unwrap_or_default(),
            epic,
        }
    });
    Ok(rows.collect())
}

/// Returns the IDs of the epics that are visible to the viewer.
async fn seen(db: &impl ConnectionTrait, viewer: Viewer, ids: Vec<i64>) -> Result<HashSet<i64>> {
    if ids.is_empty() {
        return Ok(HashSet::new());
    }
    let found = Entity::find()
        .select_only()
        .column(Column::Id)
        .filter(Column::Id.is_in(ids))
        .filter(epics::visible(viewer, now().date_naive()));
    let found: Vec<i64> = found.into_tuple().all(db).await?;
    Ok(found.into_iter().collect())
}
