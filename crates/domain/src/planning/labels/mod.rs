//! Labels of projects and groups. [`changes`] updates them, and [`promotion`] turns project labels into group
//! labels.

mod changes;
pub mod colors;
mod counts;
mod promotion;
mod rules;
mod subscriptions;
mod titles;

pub(crate) use changes::valid_row;
pub use changes::{LabelUpdate, NewLabel, create, delete, update};
pub use counts::LabelCounts;
pub use promotion::promote;
pub(crate) use rules::DEFAULT_COLOR;
pub use subscriptions::set_subscribed;
pub(crate) use titles::MAX_LABELS;
pub use titles::{find_by_title, lock_by_title, resolve_or_create};

use std::collections::{HashMap, HashSet};

use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use storage::entities::labels::{self, Column, Model};
use storage::entities::{fold, label_priorities, numeric_id, subscriptions as label_subscriptions};

use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::query::{contains, page_of};

/// Filter of a list of labels, and the data to load.
#[derive(Debug, Clone)]
pub struct LabelFilter {
    /// Whether to load the numbers of issues and merge requests.
    pub with_counts: bool,
    /// Whether to include labels of ancestor groups.
    pub include_ancestors: bool,
    /// Text that the title contains.
    pub search: Option<String>,
}

/// A label in a project or group.
#[derive(Debug, Clone)]
pub struct LabelDetail {
    /// The label.
    pub label: Model,
    /// Priority in the project.
    pub priority: Option<i32>,
    /// Whether the caller is subscribed to the label.
    pub subscribed: bool,
    /// Numbers of issues and merge requests, if requested.
    pub counts: Option<LabelCounts>,
}

/// Returns a page of the labels that are available in a project or group, by title.
///
/// # Errors
/// Returns `Error::Forbidden` if neither issues nor merge requests are available to the caller.
pub async fn list(
    backend: &Backend,
    space: &SpaceAccess,
    filter: &LabelFilter,
    page: &PageRequest,
) -> Result<Page<LabelDetail>> {
    space.check_planning()?;
    let mut query = match filter.include_ancestors {
        true => labels::available(space.scope(), space.namespace.id),
        false => labels::within(space.scope()),
    };
    if let Some(text) = filter.search.as_deref().filter(|text| !text.is_empty()) {
        query = query.filter(contains(Column::TitleKey, &fold(text)));
    }
    let query = query.order_by_asc(Column::Title).order_by_asc(Column::Id);
    let db = backend.database.read();
    let Page { items, rest } = page_of(db, query, page).await?;
    let items = details(db, space, items, filter.with_counts).await?;
    Ok(Page { items, rest })
}

/// Returns a label of a project, group or ancestor group, by ID or title.
///
/// # Errors
/// Returns `Error::Forbidden` if neither issues nor merge requests are available to the caller. Returns
/// `Error::NotFound` if the label does not exist.
pub async fn get(backend: &Backend, space: &SpaceAccess, reference: &str) -> Result<LabelDetail> {
    space.check_planning()?;
    let db = backend.database.read();
    let label = find(db, space, reference).await?;
    detail(db, space, label).await
}

/// Finds a label among those available in the project or group.
async fn find(db: &impl ConnectionTrait, space: &SpaceAccess, reference: &str) -> Result<Model> {
    if let Some(id) = numeric_id(reference) {
        let by_id = labels::available(space.scope(), space.namespace.id).filter(Column::Id.eq(id));
        if let Some(label) = by_id.one(db).await? {
            return Ok(label);
        }
    }
    let mut by_title = find_by_title(db, space, &[reference]).await?;
    by_title.remove(reference).ok_or_else(missing)
}

/// Finds a label of the project or group itself, and locks it until the transaction ends.
async fn lock_own(db: &impl ConnectionTrait, space: &SpaceAccess, reference: &str) -> Result<Model> {
    let own = || labels::within(space.scope()).lock_exclusive();
    if let Some(id) = numeric_id(reference)
        && let Some(label) = own().filter(Column::Id.eq(id)).one(db).await?
    {
        return Ok(label);
    }
    let by_title = own().filter(Column::Title.eq(reference)).one(db).await?;
    by_title.ok_or_else(missing)
}

fn missing() -> Error {
    Error::not_found("Label")
}

/// Returns a label of a project or group with its data.
async fn detail(db: &impl ConnectionTrait, space: &SpaceAccess, label: Model) -> Result<LabelDetail> {
    let mut details = details(db, space, vec![label], false).await?;
    details.pop().ok_or_else(missing)
}

/// Returns labels of a project or group with their data, in a fixed number of statements.
async fn details(
    db: &impl ConnectionTrait,
    space: &SpaceAccess,
    labels: Vec<Model>,
    with_counts: bool,
) -> Result<Vec<LabelDetail>> {
    let ids: Vec<i64> = labels.iter().map(|label| label.id).collect();
    let priorities: HashMap<i64, i32> = match &space.project {
        Some(project) => label_priorities::Entity::find()
            .filter(label_priorities::Column::ProjectId.eq(project.id))
            .filter(label_priorities::Column::LabelId.is_in(ids.iter().copied()))
            .all(db)
            .await?
            .into_iter()
            .map(|row| (row.label_id, row.priority))
            .collect(),
        None => HashMap::new(),
    };
    let subscribed_ids: HashSet<i64> = match space.caller.as_user() {
        Some(user) => label_subscriptions::Entity::find()
            .filter(label_subscriptions::Column::UserId.eq(user.id))
            .filter(label_subscriptions::Column::Subscribed.eq(true))
            .filter(label_subscriptions::Column::LabelId.is_in(ids.iter().copied()))
            .all(db)
            .await?
            .into_iter()
            .filter_map(|row| row.label_id)
            .collect(),
        None => HashSet::new(),
    };
    let mut counts = match with_counts {
        true => Some(counts::by_label(db, space, &ids).await?),
        false => None,
    };
    let details = labels.into_iter().map(|label| LabelDetail {
        priority: priorities.get(&label.id).copied(),
        subscribed: subscribed_ids.contains(&label.id),
        counts: counts
            .as_mut()
            .map(|counts| counts.remove(&label.id).unwrap_or_default()),
        label,
    });
    Ok(details.collect())
}
