//! Labels of projects and groups. [`changes`] updates them, and [`promotion`] turns project labels into group
//! labels.

mod changes;
pub mod colors;
mod counts;
mod promotion;
mod rules;
mod subscriptions;
mod titles;

pub(crate) use changes::checked;
pub use changes::{Change, NewLabel, create, delete, update};
pub use counts::Counts;
pub use promotion::promote;
pub(crate) use rules::DEFAULT_COLOR;
pub use subscriptions::set_subscribed;
pub(crate) use titles::MOST;
pub use titles::{hold_named, named, resolve_or_create};

use std::collections::{HashMap, HashSet};

use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use storage::entities::labels::{self, Column, Model};
use storage::entities::{fold, label_priorities, numeric_id, subscriptions as rows};

use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::query::{contains, page_of};

/// Filter of labels, and the data to load.
#[derive(Debug, Clone)]
pub struct Filter {
    /// Whether counts are loaded.
    pub with_counts: bool,
    /// Whether labels of ancestor groups are included.
    pub ancestors: bool,
    /// Text that titles contain.
    pub search: Option<String>,
}

/// A label in a project or group.
#[derive(Debug, Clone)]
pub struct Row {
    /// The label.
    pub label: Model,
    /// Priority in the project.
    pub priority: Option<i32>,
    /// Whether the caller is subscribed to the label.
    pub subscribed: bool,
    /// Counts, if requested.
    pub counts: Option<Counts>,
}

/// Returns a page of the labels that are available in a project or group, by title.
///
/// # Errors
/// Returns `Error::Forbidden` if neither issues nor merge requests are available to the caller.
pub async fn list(
    backend: &Backend,
    place: &SpaceAccess,
    filter: &Filter,
    page: &PageRequest,
) -> Result<Page<Row>> {
    place.check_planning()?;
    let mut wanted = match filter.ancestors {
        true => labels::available(place.scope(), place.namespace.id),
        false => labels::within(place.scope()),
    };
    if let Some(text) = filter.search.as_deref().filter(|text| !text.is_empty()) {
        wanted = wanted.filter(contains(Column::TitleKey, &fold(text)));
    }
    let wanted = wanted.order_by_asc(Column::Title).order_by_asc(Column::Id);
    let db = backend.database.read();
    let Page { items, rest } = page_of(db, wanted, page).await?;
    let items = decorate(db, place, items, filter.with_counts).await?;
    Ok(Page { items, rest })
}

/// Returns a label of a project, group or ancestor group, by ID or title.
///
/// # Errors
/// Returns `Error::Forbidden` if neither issues nor merge requests are available to the caller. Returns
/// `Error::NotFound` if the label does not exist.
pub async fn read(backend: &Backend, place: &SpaceAccess, reference: &str) -> Result<Row> {
    place.check_planning()?;
    let db = backend.database.read();
    let label = find(db, place, reference).await?;
    row(db, place, label).await
}

/// Finds a label among those available in the project or group.
async fn find(db: &impl ConnectionTrait, place: &SpaceAccess, reference: &str) -> Result<Model> {
    if let Some(id) = numeric_id(reference) {
        let by_id = labels::available(place.scope(), place.namespace.id).filter(Column::Id.eq(id));
        if let Some(label) = by_id.one(db).await? {
            return Ok(label);
        }
    }
    let mut by_title = named(db, place, &[reference]).await?;
    by_title.remove(reference).ok_or_else(missing)
}

/// Finds a label of the project or group itself, and locks it until the transaction ends.
async fn lock_own(db: &impl ConnectionTrait, place: &SpaceAccess, reference: &str) -> Result<Model> {
    let own = || labels::within(place.scope()).lock_exclusive();
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

/// Loads the data of one label in a project or group.
async fn row(db: &impl ConnectionTrait, place: &SpaceAccess, label: Model) -> Result<Row> {
    let mut rows = decorate(db, place, vec![label], false).await?;
    rows.pop().ok_or_else(missing)
}

/// Loads the data of labels in a project or group, in few statements.
async fn decorate(
    db: &impl ConnectionTrait,
    place: &SpaceAccess,
    labels: Vec<Model>,
    with_counts: bool,
) -> Result<Vec<Row>> {
    let ids: Vec<i64> = labels.iter().map(|label| label.id).collect();
    let priorities: HashMap<i64, i32> = match &place.project {
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
    let subscribed: HashSet<i64> = match place.caller.as_user() {
        Some(user) => rows::Entity::find()
            .filter(rows::Column::UserId.eq(user.id))
            .filter(rows::Column::Subscribed.eq(true))
            .filter(rows::Column::LabelId.is_in(ids.iter().copied()))
            .all(db)
            .await?
            .into_iter()
            .filter_map(|row| row.label_id)
            .collect(),
        None => HashSet::new(),
    };
    let mut counts = match with_counts {
        true => Some(counts::of(db, place, &ids).await?),
        false => None,
    };
    let decorated = labels.into_iter().map(|label| Row {
        priority: priorities.get(&label.id).copied(),
        subscribed: subscribed.contains(&label.id),
        counts: counts
            .as_mut()
            .map(|counts| counts.remove(&label.id).unwrap_or_default()),
        label,
    });
    Ok(decorated.collect())
}
