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
use counts::CountParts;
pub use counts::LabelCounts;
pub use promotion::promote;
pub(crate) use rules::DEFAULT_COLOR;
pub use subscriptions::set_subscribed;
pub(crate) use titles::MAX_LABELS;
pub use titles::{ids_by_title, lock_by_title, resolve_or_create};

use std::collections::HashSet;

use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect, Select};
use storage::entities::labels::{self, Column, LabelSummary, Model};
use storage::entities::related_rows::{RelatedRowSets, RelatedRows};
use storage::entities::row_conditions::by_code_points;
use storage::entities::{fold, label_priorities, numeric_id, subscriptions as label_subscriptions};

use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::query::{contains, uncounted_page_with_texts};

/// Reserves the memory of a response that contains the descriptions of these labels, as texts and as HTML. Until the
/// response is created, all resources with a label share its description.
///
/// # Errors
/// Returns `Overloaded` if too little memory is left.
pub fn reserve_descriptions<'a>(
    caller: &Caller,
    labels: impl Iterator<Item = &'a LabelSummary>,
) -> Result<()> {
    let descriptions = labels.filter_map(|label| label.description.as_deref());
    let size: u64 = descriptions.map(|text| 2 * text.len() as u64).sum();
    caller.reserve_memory(size)
}

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
    let db = backend.database.read();
    let title = by_code_points(db.get_database_backend(), Column::Title.into_expr());
    let query = query.order_by_asc(title).order_by_asc(Column::Id);
    let (found, total) = uncounted_page_with_texts(db, &space.caller, query, page).await?;
    let mut related = RelatedRows::default();
    let counted = related.add(total.part());
    let (items, mut rows) = load_details(db, space, found, filter.with_counts, related).await?;
    Ok(Page {
        items,
        rest: total.position(&rows.take(counted)),
    })
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
    let by_title = ids_by_title(db, space, &[reference]).await?;
    let id = by_title.get(reference).copied().ok_or_else(missing)?;
    labels::Entity::find_by_id(id).one(db).await?.ok_or_else(missing)
}

/// Finds a label of the project or group itself, and locks it until the transaction ends.
async fn lock_own(db: &impl ConnectionTrait, space: &SpaceAccess, reference: &str) -> Result<Model> {
    find_among(db, labels::within(space.scope()).lock_exclusive(), reference).await
}

/// Finds a label of the project or group itself.
async fn find_own(db: &impl ConnectionTrait, space: &SpaceAccess, reference: &str) -> Result<Model> {
    find_among(db, labels::within(space.scope()), reference).await
}

/// Finds a label among the selected ones, by ID or title.
async fn find_among(
    db: &impl ConnectionTrait,
    own: Select<labels::Entity>,
    reference: &str,
) -> Result<Model> {
    if let Some(id) = numeric_id(reference)
        && let Some(label) = own.clone().filter(Column::Id.eq(id)).one(db).await?
    {
        return Ok(label);
    }
    let by_title = own.filter(Column::Title.eq(reference)).one(db).await?;
    by_title.ok_or_else(missing)
}

fn missing() -> Error {
    Error::not_found("Label")
}

/// Returns a label of a project or group with its data.
async fn detail(db: &impl ConnectionTrait, space: &SpaceAccess, label: Model) -> Result<LabelDetail> {
    let (mut details, _) = load_details(db, space, vec![label], false, RelatedRows::default()).await?;
    details.pop().ok_or_else(missing)
}

/// Returns labels of a project or group with their data, in one statement with the parts of `related`.
async fn load_details(
    db: &impl ConnectionTrait,
    space: &SpaceAccess,
    labels: Vec<Model>,
    with_counts: bool,
    mut related: RelatedRows,
) -> Result<(Vec<LabelDetail>, RelatedRowSets)> {
    let database = db.get_database_backend();
    let ids: Vec<i64> = labels.iter().map(|label| label.id).collect();
    let project = space.project.as_ref();
    let priorities = project.and_then(|project| label_priorities::part(database, project.id, &ids));
    let priorities = related.add(priorities);
    let user = space.caller.as_user();
    let subscribed = user.and_then(|user| label_subscriptions::labels_part(database, user.id, &ids));
    let subscribed = related.add(subscribed);
    let counts = with_counts.then(|| CountParts::add(&mut related, database, space, &ids));
    let mut rows = related.load(db).await?;
    let priorities = rows.take_by_owner(priorities, |row| Ok(row.number))?;
    let subscribed_ids = rows.take(subscribed).into_iter().map(|row| row.owner_id);
    let subscribed_ids: HashSet<i64> = subscribed_ids.collect();
    let mut counts = counts.map(|parts| parts.take(&mut rows)).transpose()?;
    let details = labels.into_iter().map(|label| {
        let priority = priorities.get(&label.id).copied().flatten();
        LabelDetail {
            priority: priority.and_then(|priority| i32::try_from(priority).ok()),
            subscribed: subscribed_ids.contains(&label.id),
            counts: counts
                .as_mut()
                .map(|counts| counts.remove(&label.id).unwrap_or_default()),
            label,
        }
    });
    Ok((details.collect(), rows))
}
