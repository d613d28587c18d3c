//! Milestones of projects and groups. [`changes`] updates them, and [`promotion`] turns project milestones
//! into group milestones.

mod changes;
mod promotion;

pub use changes::{MilestoneStateEvent, MilestoneUpdate, NewMilestone, create, delete, update};
pub(crate) use changes::{check_dates, valid_row};
pub use promotion::promote;

use std::collections::HashMap;

use sea_orm::{ColumnTrait, Condition, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use storage::entities::milestones::{self, Column, MilestoneState, Model};
use storage::entities::{fold, namespaces, now};

use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::query::{contains, page_with_texts};

/// Reserves the memory of a response that contains the descriptions of these milestones. Until the response is created,
/// all resources with a milestone share it.
///
/// # Errors
/// Returns `Overloaded` if too little memory is left.
pub fn reserve_descriptions<'a>(
    caller: &Caller,
    milestones: impl Iterator<Item = &'a MilestoneDetail>,
) -> Result<()> {
    let descriptions = milestones.filter_map(|detail| detail.milestone.description.as_ref());
    let size: u64 = descriptions.map(|text| text.len() as u64).sum();
    caller.reserve_memory(size)
}

/// Filter of a list of milestones.
#[derive(Debug, Clone)]
pub struct MilestoneFilter {
    /// Only milestones with these IIDs.
    pub iids: Option<Vec<i64>>,
    /// Only milestones in this state.
    pub state: Option<MilestoneState>,
    /// Only milestones with exactly this title.
    pub title: Option<String>,
    /// Only milestones whose title or description contains this text.
    pub search: Option<String>,
    /// Whether to include milestones of ancestor groups.
    pub include_ancestors: bool,
}

/// A milestone with the path of its project or group.
#[derive(Debug, Clone)]
pub struct MilestoneDetail {
    /// The milestone.
    pub milestone: Model,
    /// The full path of its project or group.
    pub full_path: String,
    /// Whether the due date has passed.
    pub expired: bool,
}

impl MilestoneDetail {
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
    space: &SpaceAccess,
    filter: &MilestoneFilter,
    page: &PageRequest,
) -> Result<Page<MilestoneDetail>> {
    space.check_planning()?;
    // IIDs refer to one project or group.
    let mut query = match filter.include_ancestors && filter.iids.is_none() {
        true => milestones::available(space.scope(), space.namespace.id),
        false => milestones::within(space.scope()),
    };
    if let Some(iids) = &filter.iids {
        query = query.filter(Column::Iid.is_in(iids.iter().copied()));
    }
    if let Some(state) = filter.state {
        query = query.filter(Column::State.eq(state));
    }
    if let Some(title) = filter.title.as_deref().filter(|title| !title.is_empty()) {
        query = query.filter(Column::Title.eq(title));
    }
    if let Some(text) = filter.search.as_deref().filter(|text| !text.is_empty()) {
        let folded = fold(text);
        query = query.filter(
            Condition::any()
                .add(contains(Column::TitleKey, &folded))
                .add(contains(Column::DescriptionKey, &folded)),
        );
    }
    let db = backend.database.read();
    let query = query.order_by_desc(Column::Id);
    let Page { items, rest } = page_with_texts(db, &space.caller, query, page).await?;
    let items = details(db, space, items).await?;
    Ok(Page { items, rest })
}

/// Returns a milestone of a project or group.
///
/// # Errors
/// Returns `Forbidden` if issues and merge requests are both disabled for the caller. Returns `NotFound` if
/// the milestone does not exist or belongs to an ancestor group.
pub async fn get(backend: &Backend, space: &SpaceAccess, id: i64) -> Result<MilestoneDetail> {
    space.check_planning()?;
    let found = find_own(backend.database.read(), space, id).await?;
    Ok(own_detail(space, found))
}

/// Returns a milestone of the project or group itself.
async fn find_own(db: &impl ConnectionTrait, space: &SpaceAccess, id: i64) -> Result<Model> {
    let own = milestones::within(space.scope()).filter(Column::Id.eq(id));
    own.one(db).await?.ok_or_else(missing)
}

/// Returns a milestone of the project or group itself and locks it until the transaction ends.
async fn lock(db: &impl ConnectionTrait, space: &SpaceAccess, id: i64) -> Result<Model> {
    let own = milestones::within(space.scope()).filter(Column::Id.eq(id));
    own.lock_exclusive().one(db).await?.ok_or_else(missing)
}

fn missing() -> Error {
    Error::not_found("Milestone")
}

/// Returns a milestone of the project or group itself with its data.
fn own_detail(space: &SpaceAccess, milestone: Model) -> MilestoneDetail {
    MilestoneDetail::new(milestone, space.full_path())
}

/// Returns milestones of a project or group and its ancestors with their data. Uses one more statement for
/// milestones of ancestors.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn details(
    db: &impl ConnectionTrait,
    space: &SpaceAccess,
    milestones: Vec<Model>,
) -> Result<Vec<MilestoneDetail>> {
    let ancestor_ids: Vec<i64> = milestones
        .iter()
        .filter_map(|milestone| milestone.namespace_id)
        .filter(|id| *id != space.namespace.id)
        .collect();
    let mut paths = HashMap::from([(space.namespace.id, space.namespace.full_path.clone())]);
    if !ancestor_ids.is_empty() {
        let groups = namespaces::Entity::find().filter(namespaces::Column::Id.is_in(ancestor_ids));
        let groups = groups.all(db).await?.into_iter();
        paths.extend(groups.map(|group| (group.id, group.full_path)));
    }
    let details = milestones.into_iter().map(|milestone| {
        let full_path = match milestone.namespace_id {
            Some(id) => paths.get(&id).cloned().unwrap_or_default(),
            None => space.full_path(),
        };
        MilestoneDetail::new(milestone, full_path)
    });
    Ok(details.collect())
}
