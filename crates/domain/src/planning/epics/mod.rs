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

use sea_orm::{ColumnTrait, ConnectionTrait, DbBackend, EntityTrait, QueryFilter};
use storage::entities::access::Viewer;
use storage::entities::epics::{self, Column, Entity, Model};
use storage::entities::labels::{LabelParts, LabelSummary};
use storage::entities::related_rows::{PartKey, RelatedRowSets, RelatedRows};
use storage::entities::users::UserSummary;
use storage::entities::{epic_labels, namespaces, now};

use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::query::load_related;

/// An epic with its related rows.
#[derive(Debug, Clone)]
pub struct EpicDetail {
    /// The epic.
    pub epic: Model,
    /// Its group.
    pub group: namespaces::Model,
    /// The user who created it, unless deleted.
    pub author: Option<UserSummary>,
    /// The labels, sorted by title.
    pub labels: Vec<LabelSummary>,
}

/// Returns one epic of a group.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist or the caller cannot see it.
pub async fn get(backend: &Backend, space: &SpaceAccess, iid: i64) -> Result<EpicDetail> {
    let db = backend.database.read();
    let epic = find(db, space, iid).await?;
    load_detail(db, space, epic).await
}

/// Finds an epic of a group by IID, if the caller can see it.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist or the caller cannot see it.
pub(crate) async fn find(db: &impl ConnectionTrait, space: &SpaceAccess, iid: i64) -> Result<Model> {
    let found = Entity::find()
        .filter(Column::NamespaceId.eq(space.namespace.id))
        .filter(Column::Iid.eq(iid))
        .filter(epics::visible(space.caller.viewer(), now().date_naive()))
        .one(db)
        .await?;
    found.ok_or_else(not_found)
}

/// Like [`find`], for a change: locks the epic until the transaction ends.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist, was deleted meanwhile, or the caller cannot see it.
pub(crate) async fn lock(db: &impl ConnectionTrait, space: &SpaceAccess, iid: i64) -> Result<Model> {
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
async fn load_detail(db: &impl ConnectionTrait, space: &SpaceAccess, epic: Model) -> Result<EpicDetail> {
    let (mut details, _) = load_details(db, space, vec![epic], RelatedRows::default()).await?;
    details.pop().ok_or_else(not_found)
}

/// Loads the related rows of a whole page, in one statement with the parts of `related`, and one for the groups of
/// other epics than those of the group itself. Rows deleted meanwhile are left out.
async fn load_details(
    db: &impl ConnectionTrait,
    space: &SpaceAccess,
    found: Vec<Model>,
    mut related: RelatedRows,
) -> Result<(Vec<EpicDetail>, RelatedRowSets)> {
    let (own_group, database) = (&space.namespace, db.get_database_backend());
    let others: HashSet<i64> = found.iter().map(|epic| epic.namespace_id).collect();
    let others: Vec<i64> = others.into_iter().filter(|id| *id != own_group.id).collect();
    let mut groups = HashMap::from([(own_group.id, own_group.clone())]);
    if !others.is_empty() {
        let others = namespaces::Entity::find().filter(namespaces::Column::Id.is_in(others));
        groups.extend(others.all(db).await?.into_iter().map(|group| (group.id, group)));
    }
    let authors = found.iter().filter_map(|epic| epic.author_id);
    let authors = related.add(UserSummary::part(database, authors));
    let parts = EpicParts::add(&mut related, database, space.caller.viewer(), &found);
    let mut rows = load_related(db, &space.caller, related).await?;
    let authors = rows.take_by_owner(authors, UserSummary::read)?;
    let found = found.into_iter().map(|epic| {
        let group = groups.get(&epic.namespace_id).cloned();
        (epic, group)
    });
    let details = parts.take(&mut rows).details(found, &authors);
    Ok((details, rows))
}

/// The parts of a statement with the related rows of epics.
pub(crate) struct EpicParts {
    labels: LabelParts,
    parents: PartKey,
}

impl EpicParts {
    /// Adds the parts to a statement.
    pub fn add<'a>(
        related: &mut RelatedRows,
        database: DbBackend,
        viewer: Viewer,
        found: impl IntoIterator<Item = &'a Model>,
    ) -> Self {
        let (ids, parents): (Vec<i64>, Vec<Option<i64>>) =
            found.into_iter().map(|epic| (epic.id, epic.parent_id)).unzip();
        let parents: Vec<i64> = parents.into_iter().flatten().collect();
        let visible = epics::visible_part(database, viewer, now().date_naive(), &parents);
        Self {
            labels: LabelParts::add(related, database, epic_labels::LINKS, &ids),
            parents: related.add(visible),
        }
    }

    /// Removes and returns the rows of the parts.
    pub fn take(self, rows: &mut RelatedRowSets) -> EpicAssociations {
        let parents = rows.take(self.parents).into_iter();
        EpicAssociations {
            labels: self.labels.take(rows),
            parents: parents.map(|row| row.owner_id).collect(),
        }
    }
}

/// Related rows of epics.
#[derive(Debug)]
pub(crate) struct EpicAssociations {
    labels: HashMap<i64, Vec<LabelSummary>>,
    /// The parents that the viewer can see.
    parents: HashSet<i64>,
}

impl EpicAssociations {
    /// Combines epics with their groups, authors and related rows. Epics without a group are left out.
    pub fn details(
        mut self,
        found: impl IntoIterator<Item = (Model, Option<namespaces::Model>)>,
        authors: &HashMap<i64, UserSummary>,
    ) -> Vec<EpicDetail> {
        let details = found.into_iter().filter_map(|(mut epic, group)| {
            epic.parent_id = epic.parent_id.filter(|id| self.parents.contains(id));
            Some(EpicDetail {
                group: group?,
                author: epic.author_id.and_then(|id| authors.get(&id).cloned()),
                labels: self.labels.remove(&epic.id).unwrap_or_default(),
                epic,
            })
        });
        details.collect()
    }
}
