//! Milestones of projects and groups (specification 2.5): what is read here, what is changed in [`changes`], and what
//! follows from one that becomes its group's in [`promotion`].

mod changes;
mod promotion;

pub use changes::{Change, NewMilestone, StateEvent, create, delete, update};
pub(in crate::services) use changes::{check_days, checked};
pub use promotion::promote;

use std::collections::HashMap;

use sea_orm::{ColumnTrait, Condition, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use storage::entities::milestones::{self, Column, Model, State};
use storage::entities::{fold, namespaces, now};

use crate::error::{Error, Result};
use crate::services::Backend;
use crate::services::kernel::page::{Page, PageRequest};
use crate::services::listing::{contains, page_of};
use crate::services::places::Place;

/// Which milestones a caller wants.
#[derive(Debug, Clone)]
pub struct Filter {
    /// Only those with these numbers within their project or group.
    pub iids: Option<Vec<i64>>,
    /// Only those in this state.
    pub state: Option<State>,
    /// Only those with exactly this title.
    pub title: Option<String>,
    /// Only those whose title or description contains this text.
    pub search: Option<String>,
    /// With those of the groups above.
    pub parents: bool,
}

/// A milestone and where it belongs.
#[derive(Debug, Clone)]
pub struct Row {
    /// The milestone.
    pub milestone: Model,
    /// The full path of the project or group that it belongs to.
    pub full_path: String,
    /// The day it was to be reached has passed.
    pub expired: bool,
}

impl Row {
    /// A milestone with the full path of the project or group that it belongs to.
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

/// A page of the milestones of a place, the newest first.
///
/// # Errors
/// 403 where there is nothing that has milestones.
pub async fn list(
    backend: &Backend,
    place: &Place,
    filter: &Filter,
    page: &PageRequest,
) -> Result<Page<Row>> {
    place.admit_to_planning()?;
    // Numbers are those within one project or group.
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

/// One milestone of a place.
///
/// # Errors
/// 403 where there is nothing that has milestones, and 404, also for one of a group above.
pub async fn read(backend: &Backend, place: &Place, id: i64) -> Result<Row> {
    place.admit_to_planning()?;
    let found = milestones::within(place.scope())
        .filter(Column::Id.eq(id))
        .one(backend.database.read())
        .await?;
    Ok(here(place, found.ok_or_else(missing)?))
}

/// Looks among the milestones of the place itself, and locks what is found until the transaction ends.
async fn lock(db: &impl ConnectionTrait, place: &Place, id: i64) -> Result<Model> {
    let own = milestones::within(place.scope()).filter(Column::Id.eq(id));
    own.lock_exclusive().one(db).await?.ok_or_else(missing)
}

fn missing() -> Error {
    Error::not_found("Milestone")
}

/// A milestone of the place itself.
fn here(place: &Place, milestone: Model) -> Row {
    Row::new(milestone, place.full_path())
}

/// Milestones of a place and of the groups above with where they belong, in one statement more where there are such.
///
/// # Errors
/// Whatever the database reports.
pub async fn locate(db: &impl ConnectionTrait, place: &Place, found: Vec<Model>) -> Result<Vec<Row>> {
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
