//! Epics of groups, which contain issues of the group's projects and subgroups. [`list`] lists them,
//! [`changes`] updates them, and [`issues`] manages their issues.

mod changes;
pub mod issues;
mod labels;
mod list;
mod parents;

pub use self::labels::EpicLabelUpdate;
pub(crate) use changes::valid_row;
pub use changes::{EpicUpdate, NewEpic, create, delete, update};
pub use list::{EpicFilter, EpicOrder, list};
pub(crate) use parents::MAX_ANCESTORS;

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
pub struct EpicDetail {
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
pub async fn get(backend: &Backend, space: &SpaceAccess, iid: i64) -> Result<EpicDetail> {
    let db = backend.database.read();
    let epic = find(db, space, iid).await?;
    load_detail(db, space.caller.viewer(), epic).await
}

/// Returns the ID of an epic of a group.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist or the caller cannot see it.
pub async fn get_id(backend: &Backend, space: &SpaceAccess, iid: i64) -> Result<i64> {
    Ok(find(backend.database.read(), space, iid).await?.id)
}

/// Finds an epic of a group by IID, if the caller can see it.
async fn find(db: &impl ConnectionTrait, space: &SpaceAccess, iid: i64) -> Result<Model> {
    let found = Entity::find()
        .filter(Column::NamespaceId.eq(space.namespace.id))
        .filter(Column::Iid.eq(iid))
        .filter(epics::visible(space.caller.viewer(), now().date_naive()))
        .one(db)
        .await?;
    found.ok_or_else(not_found)
}

/// Like [`find`], for a change: locks the epic until the transaction ends.
async fn lock(db: &impl ConnectionTrait, space: &SpaceAccess, iid: i64) -> Result<Model> {
    let found = find(db, space, iid).await?;
    epics::lock(db, found.id).await?.ok_or_else(not_found)
}

/// Finds an epic of a group by ID, if the caller can see it.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist, belongs to another group, or the caller cannot see it.
pub(crate) async fn find_by_id(db: &impl ConnectionTrait, space: &SpaceAccess, id: i64) -> Result<Model> {
    // Projects have no epics, and `namespace` is the parent of the project here.
    if space.project.is_some() {
        return Err(not_found());
    }
    let found = Entity::find_by_id(id)
        .filter(Column::NamespaceId.eq(space.namespace.id))
        .filter(epics::visible(space.caller.viewer(), now().date_naive()))
        .one(db)
        .await?;
    found.ok_or_else(not_found)
}

/// Like [`find_by_id`], for a change: locks the epic until the transaction ends.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist, was deleted meanwhile, or the caller cannot see it.
pub(crate) async fn lock_by_id(db: &impl ConnectionTrait, space: &SpaceAccess, id: i64) -> Result<Model> {
    let found = find_by_id(db, space, id).await?;
    epics::lock(db, found.id).await?.ok_or_else(not_found)
}

fn not_found() -> Error {
    Error::not_found("Epic")
}

/// Loads the related rows of one epic.
async fn load_detail(db: &impl ConnectionTrait, viewer: Viewer, epic: Model) -> Result<EpicDetail> {
    decorate(db, viewer, vec![epic])
        .await?
        .pop()
        .ok_or_else(not_found)
}

/// Loads the related rows of a whole page. Rows deleted meanwhile are left out.
async fn decorate(db: &impl ConnectionTrait, viewer: Viewer, found: Vec<Model>) -> Result<Vec<EpicDetail>> {
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
    with_associations(db, viewer, found.collect()).await
}

/// Loads the related rows that are visible to the viewer, for epics with known groups and authors.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn with_associations(
    db: &impl ConnectionTrait,
    viewer: Viewer,
    found: Vec<(namespaces::Model, Option<users::Model>, Model)>,
) -> Result<Vec<EpicDetail>> {
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let parents = found.iter().filter_map(|(_, _, epic)| epic.parent_id);
    let parents = visible_ids(db, viewer, parents.collect()).await?;
    let mut labels = epic_labels::of(db, found.iter().map(|(_, _, epic)| epic.id)).await?;
    let rows = found.into_iter().map(|(group, author, mut epic)| {
        epic.parent_id = epic.parent_id.filter(|id| parents.contains(id));
        EpicDetail {
            group,
            author,
            labels: labels.remove(&epic.id).unwrap_or_default(),
            epic,
        }
    });
    Ok(rows.collect())
}

/// Returns the IDs of the epics that are visible to the viewer.
async fn visible_ids(db: &impl ConnectionTrait, viewer: Viewer, ids: Vec<i64>) -> Result<HashSet<i64>> {
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
