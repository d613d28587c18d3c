//! Lists and lookups of releases.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use sea_orm::{ColumnTrait, EntityTrait, Order, QueryFilter, QueryOrder, QuerySelect, QueryTrait};
use storage::entities::access::projects_with_releases;
use storage::entities::releases::{self, Column, Entity};
use storage::entities::{namespace_ancestors, now, projects};

use super::details::{self, ReleaseDetail};
use super::rules;
use crate::identity::access::{GroupAccess, ProjectAccess};
use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::query::{at_or_before, page_with_texts};

/// Sort order of a list of releases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseOrder {
    /// By the date of the release.
    ReleasedAt,
    /// By the date of creation.
    CreatedAt,
}

/// Filter and sort order of a list of releases.
#[derive(Debug, Clone)]
pub struct ReleaseFilter {
    /// The sort order.
    pub order: ReleaseOrder,
    /// Whether the order is descending.
    pub descending: bool,
    /// Only releases that were changed at or before this time.
    pub updated_before: Option<DateTime<Utc>>,
    /// Only releases that were changed at or after this time.
    pub updated_after: Option<DateTime<Utc>>,
}

/// Returns a page of the releases of a project.
///
/// # Errors
/// Returns `Error::Forbidden` if the releases of the project are not available to the caller.
pub async fn list(
    backend: &Backend,
    access: &ProjectAccess,
    filter: &ReleaseFilter,
    page: &PageRequest,
) -> Result<Page<ReleaseDetail>> {
    rules::check_releases(access)?;
    let column = match filter.order {
        ReleaseOrder::ReleasedAt => Column::ReleasedAt,
        ReleaseOrder::CreatedAt => Column::CreatedAt,
    };
    let direction = direction(filter.descending);
    let mut query = releases::of_project(access.project.id);
    if let Some(time) = filter.updated_before {
        query = query.filter(at_or_before(Column::UpdatedAt.into_expr(), time));
    }
    if let Some(time) = filter.updated_after {
        query = query.filter(Column::UpdatedAt.gte(time));
    }
    let query = query
        .order_by(column, direction.clone())
        .order_by(Column::Id, direction);
    let db = backend.database.read();
    let Page { items, rest } = page_with_texts(db, &access.caller, query, page).await?;
    let accesses = HashMap::from([(access.project.id, access.clone())]);
    let items = details::load(backend, &accesses, items).await?;
    Ok(Page { items, rest })
}

fn direction(descending: bool) -> Order {
    match descending {
        true => Order::Desc,
        false => Order::Asc,
    }
}

/// Returns a page of the releases that are available to the caller in the projects of a group and its subgroups, by the date
/// of the release. `simple` omits the related rows.
///
/// # Errors
/// Returns an error if a database query or a Git operation fails.
pub async fn list_of_group(
    backend: &Backend,
    access: &GroupAccess,
    descending: bool,
    simple: bool,
    page: &PageRequest,
) -> Result<Page<ReleaseDetail>> {
    let available = projects::Entity::find()
        .select_only()
        .column(projects::Column::Id)
        .filter(projects::Column::NamespaceId.in_subquery(namespace_ancestors::at_or_below(access.group.id)))
        .filter(projects_with_releases(access.caller.viewer(), now().date_naive()))
        .into_query();
    let direction = direction(descending);
    let query = Entity::find()
        .filter(Column::ProjectId.in_subquery(available))
        .order_by(Column::ReleasedAt, direction.clone())
        .order_by(Column::Id, direction);
    let db = backend.database.read();
    let Page { items, rest } = page_with_texts(db, &access.caller, query, page).await?;
    let ids = items.iter().map(|release| release.project_id).collect();
    let accesses = ProjectAccess::find_all(backend, &access.caller, ids).await?;
    let items = match simple {
        true => details::without_content(&accesses, items),
        false => details::load(backend, &accesses, items).await?,
    };
    Ok(Page { items, rest })
}

/// Returns the release of a tag.
///
/// # Errors
/// Returns `Error::Forbidden` if the releases or the code of the project are not available to the caller, and
/// `Error::NotFound` if the tag has no release.
pub async fn get(backend: &Backend, access: &ProjectAccess, tag: &str) -> Result<ReleaseDetail> {
    rules::check_code(access)?;
    let release = rules::find(backend.database.read(), access, tag).await?;
    details::load_one(backend, access, release).await
}

/// Returns the tag of the latest release: the one with the latest date that is not in the future.
///
/// # Errors
/// Returns `Error::Forbidden` if the releases or the code of the project are not available to the caller, and
/// `Error::NotFound` if the project has no such release.
pub async fn latest_tag(backend: &Backend, access: &ProjectAccess) -> Result<String> {
    rules::check_code(access)?;
    let latest = releases::of_project(access.project.id)
        .filter(Column::ReleasedAt.lte(now()))
        .order_by_desc(Column::ReleasedAt)
        .order_by_desc(Column::Id)
        .one(backend.database.read())
        .await?;
    latest.map(|release| release.tag).ok_or_else(rules::not_found)
}
