//! Milestones of projects and groups. This module reads them; [`changes`] writes them and [`promotion`] moves
//! them to a group.

mod changes;
mod promotion;

pub use changes::{Change, NewMilestone, StateEvent, create, delete, update};
pub(crate) use changes::{check_days, checked};
pub use promotion::promote;

use std::collections::HashMap;

use sea_orm::{ColumnTrait, Condition, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use storage::entities::milestones::{self, Column, MilestoneState, Model};
use storage::entities::{fold, namespaces, now};

use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::query::{contains, page_of};

/// Filter of a list of milestones.
#[derive(Debug, Clone)]
pub struct Filter {
    /// Only milestones with these IIDs.
    pub iids: Option<Vec<i64>>,
    /// Only milestones in this state.
    pub state: Option<MilestoneState>,
    /// Only milestones with exactly this title.
    pub title: Option<String>,
    /// Only milestones whose title or description contains this text.
    pub search: Option<String>,
    /// Whether to include milestones of ancestor groups.
    pub parents: bool,
}

/// A milestone with the path of its project or group.
#[derive(Debug, Clone)]
pub struct Row {
    /// The milestone.
    pub milestone: Model,
    /// The full path of its project or group.
    pub full_path: String,
    /// Whether the due date has passed.
    pub expired: bool,
}

impl Row {
    /// Combines a milestone with the full path of its project or group.
    #[must_use]
    pub fn new(milestone: Model, full_path: String) -> Self {
        let today = now().date_naive();
        Self {
            expired: milestone.due_date.is_some_and(|due| due < today),
            milestone,
            full_path,
        }
    }
}

/// Lists the milestones of a project or group, newest first.
///
/// # Errors
/// Returns `Forbidden` if issues and merge requests are both disabled for the caller.
pub async fn list(
    backend: &Backend,
    place: &SpaceAccess,
    filter: &Filter,
    page: &PageRequest,
) -> Result<Page<Row>> {
    place.check_planning()?;
    // IIDs refer to one project or group.
    let mut wanted = match filter.parents && filter.iids.is_none() {
        true => milestones::available(place.scope(), place.namespace.id),
        false => milestones::within(place.scope()),
    };
    if let Some(iids) = &filter.iids {
        wanted = wanted.filter(Column::Iid.is_in(iids.iter().copied()));
    }
    if let Some(state) = filter.state {
        wanted = wanted.filter(Column::State.eq(state));
    }
    if let Some(title) = filter.title.as_deref().filter(|title| !title.is_empty()) {
        wanted = wanted.filter(Column::Title.eq(title));
    }
    if let Some(text) = filter.search.as_deref().filter(|text| !text.is_empty()) {
        let folded = fold(text);
        wanted = wanted.filter(
            Condition::any()
                .add(contains(Column::TitleKey, &folded))
                .add(contains(Column::DescriptionKey, &folded)),
        );
    }
    let db = backend.database.read();
    let Page { items, rest } = page_of(db, wanted.order_by_desc(Column::Id), page).await?;
    let items = locate(db, place, items).await?;
    Ok(Page { items, rest })
}

/// Returns a milestone of a project or group.
///
/// # Errors
/// Returns `Forbidden` if issues and merge requests are both disabled for the caller. Returns `NotFound` if
/// the milestone does not exist or belongs to an ancestor group.
pub async fn read(backend: &Backend, place: &SpaceAccess, id: i64) -> Result<Row> {
    place.check_planning()?;
    let found = milestones::within(place.scope())
        .filter(Column::Id.eq(id))
        .one(backend.database.read())
        .await?;
    Ok(here(place, found.ok_or_else(missing)?))
}

/// Returns a milestone of the project or group itself and locks it until the transaction ends.
async fn lock(db: &impl ConnectionTrait, place: &SpaceAccess, id: i64) -> Result<Model> {
    let own = milestones::within(place.scope()).filter(Column::Id.eq(id));
    own.lock_exclusive().one(db).await?.ok_or_else(missing)
}

fn missing() -> Error {
    Error::not_found("Milestone")
}

/// Returns a milestone of the project or group itself.
fn here(place: &SpaceAccess, milestone: Model) -> Row {
    Row::new(milestone, place.full_path())
}

/// Adds the full paths to milestones of a project or group and its ancestors. It needs one more statement if
/// there are milestones of ancestors.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn locate(db: &impl ConnectionTrait, place: &SpaceAccess, found: Vec<Model>) -> Result<Vec<Row>> {
    let above: Vec<i64> = found
        .iter()
        .filter_map(|milestone| milestone.namespace_id)
        .filter(|id| *id != place.namespace.id)
        .collect();
    let mut paths = HashMap::from([(place.namespace.id, place.namespace.full_path.clone())]);
    if !above.is_empty() {
        let groups = namespaces::Entity::find().filter(namespaces::Column::Id.is_in(above));
        let groups = groups.all(db).await?.into_iter();
        paths.extend(groups.map(|group| (group.id, group.full_path)));
    }
    let rows = found.into_iter().map(|milestone| {
        let full_path = match milestone.namespace_id {
            Some(id) => paths.get(&id).cloned().unwrap_or_default(),
            None => place.full_path(),
        };
        Row::new(milestone, full_path)
    });
    Ok(rows.collect())
}
