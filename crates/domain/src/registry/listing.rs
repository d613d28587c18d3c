//! Reads repositories and tags of the container registry.

use std::collections::HashMap;

use sea_orm::sea_query::{Alias, Query, SelectStatement, UnionType};
use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect, QueryTrait, Select,
};
use storage::entities::projects::{self, FeatureAccess};
use storage::entities::registry_repositories as repositories;
use storage::entities::registry_repositories::{Column, Entity, Model};
use storage::entities::{namespace_ancestors, registry_manifests, registry_tags as tags};

use super::{check_can_pull, find_repository};
use crate::identity::access::{GroupAccess, InstanceAccess, ProjectAccess};
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::policy::Role;
use crate::kernel::query::page_of;
use crate::kernel::{Backend, urls};
use crate::registry::permissions::can_pull;

/// Maximum number of tags in a page of repositories, divided equally among them.
const MAX_TAGS: usize = 1_000;
/// Minimum number of tags for each repository.
const MIN_TAGS: usize = 20;

/// Additional data of repositories.
#[derive(Debug, Clone, Copy, Default)]
pub struct RepositoryDetailOptions {
    /// The tags.
    pub tags: bool,
    /// The number of tags.
    pub tags_count: bool,
}

/// A repository with the requested data.
#[derive(Debug, Clone)]
pub struct RepositoryDetail {
    /// The repository.
    pub repository: Model,
    /// The path of its project and its name, in lowercase.
    pub path: String,
    /// The number of tags.
    pub tags_count: Option<i64>,
    /// The names of its first tags in byte order.
    pub tags: Option<Vec<String>>,
}

/// Lists the repositories of a project, oldest first, optionally only the one with a name.
///
/// # Errors
/// Returns `Forbidden` if the registry is not available to the caller.
pub async fn list_of_project(
    backend: &Backend,
    access: &ProjectAccess,
    name: Option<String>,
    with: RepositoryDetailOptions,
    page: &PageRequest,
) -> Result<Page<RepositoryDetail>> {
    check_can_pull(access)?;
    list(
        backend,
        repositories::of_project(access.project.id),
        name,
        with,
        page,
    )
    .await
}

/// Lists the repositories of all projects of a group and its subgroups, oldest first.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn list_of_group(
    backend: &Backend,
    access: &GroupAccess,
    name: Option<String>,
    with: RepositoryDetailOptions,
    page: &PageRequest,
) -> Result<Page<RepositoryDetail>> {
    // The caller is at least a Reporter of the group, and thus of all its projects.
    let projects = projects::not_deleted()
        .select_only()
        .column(projects::Column::Id)
        .filter(projects::Column::NamespaceId.in_subquery(namespace_ancestors::at_or_below(access.group.id)))
        .filter(projects::Column::ContainerRegistryAccessLevel.ne(FeatureAccess::Disabled));
    let query = repositories::not_deleted().filter(Column::ProjectId.in_subquery(projects.into_query()));
    list(backend, query, name, with, page).await
}

async fn list(
    backend: &Backend,
    query: Select<Entity>,
    name: Option<String>,
    with: RepositoryDetailOptions,
    page: &PageRequest,
) -> Result<Page<RepositoryDetail>> {
    let query = match name {
        Some(name) => query.filter(Column::Name.eq(name)),
        None => query,
    };
    let db = backend.database.read();
    let found = page_of(db, query.order_by_asc(Column::Id), page).await?;
    Ok(Page {
        items: load_details(db, found.items, with).await?,
        rest: found.rest,
    })
}

/// Returns a repository of any project.
///
/// # Errors
/// Returns `NotFound` if the repository does not exist or is not visible. Returns `Forbidden` if the caller
/// has a role in the project but cannot use its registry.
pub async fn get(
    backend: &Backend,
    access: &InstanceAccess,
    id: i64,
    with: RepositoryDetailOptions,
) -> Result<RepositoryDetail> {
    let missing = || Error::not_found("");
    let db = backend.database.read();
    let found = repositories::not_deleted()
        .filter(Column::Id.eq(id))
        .one(db)
        .await?;
    let repository = found.ok_or_else(missing)?;
    let project = ProjectAccess::find_visible(backend, &access.caller, repository.project_id).await?;
    let project = project.ok_or_else(missing)?;
    // The request does not name the project, so callers without access to it get the error of a missing
    // repository.
    if !project.has_role(Role::Guest) && !can_pull(&project) {
        return Err(missing());
    }
    check_can_pull(&project)?;
    let rows = load_details(db, vec![repository], with).await?;
    rows.into_iter().next().ok_or_else(missing)
}

/// Lists the names of the tags of a repository in byte order, with the path of the repository.
///
/// # Errors
/// Returns `NotFound` if the repository does not exist, and `Forbidden` if the registry is not available to
/// the caller.
pub async fn list_tags(
    backend: &Backend,
    access: &ProjectAccess,
    repository_id: i64,
    page: &PageRequest,
) -> Result<(String, Page<tags::Model>)> {
    check_can_pull(access)?;
    let db = backend.database.read();
    let repository = find_repository(db, access, repository_id).await?;
    let query = tags::of_repository(repository.id).order_by_asc(tags::Column::Name);
    Ok((path_in(access, &repository), page_of(db, query, page).await?))
}

/// Returns a tag, its manifest and the path of the repository.
///
/// # Errors
/// Returns `NotFound` if the tag does not exist, and `Forbidden` if the registry is not available to the
/// caller.
pub async fn get_tag(
    backend: &Backend,
    access: &ProjectAccess,
    repository_id: i64,
    name: &str,
) -> Result<(String, tags::Model, registry_manifests::Model)> {
    check_can_pull(access)?;
    let db = backend.database.read();
    let repository = find_repository(db, access, repository_id).await?;
    let found = tags::with_manifests(repository.id)
        .filter(tags::Column::Name.eq(name))
        .one(db)
        .await?;
    let found = found.and_then(|(tag, manifest)| Some((tag, manifest?)));
    let (tag, manifest) = found.ok_or_else(|| Error::not_found("Tag"))?;
    Ok((path_in(access, &repository), tag, manifest))
}

fn path_in(access: &ProjectAccess, repository: &Model) -> String {
    let project = urls::project_path(&access.namespace, &access.project);
    urls::image_path(&project, &repository.name)
}

/// Loads the requested data of a page of repositories.
async fn load_details(
    db: &impl ConnectionTrait,
    found: Vec<Model>,
    with: RepositoryDetailOptions,
) -> Result<Vec<RepositoryDetail>> {
    let ids: Vec<i64> = found.iter().map(|repository| repository.id).collect();
    let paths = urls::project_paths(db, found.iter().map(|repository| repository.project_id)).await?;
    let mut counts = match with.tags_count {
        true => Some(counts_of(db, &ids).await?),
        false => None,
    };
    let mut names = match with.tags {
        true => Some(names_of(db, &ids).await?),
        false => None,
    };
    let rows = found.into_iter().filter_map(|repository| {
        Some(RepositoryDetail {
            // A project that was deleted since the page was read is omitted with its repositories.
            path: urls::image_path(paths.get(&repository.project_id)?, &repository.name),
            tags_count: counts
                .as_mut()
                .map(|counts| counts.remove(&repository.id).unwrap_or(0)),
            tags: names
                .as_mut()
                .map(|names| names.remove(&repository.id).unwrap_or_default()),
            repository,
        })
    });
    Ok(rows.collect())
}

/// Returns the number of tags by repository; repositories without tags are absent.
async fn counts_of(db: &impl ConnectionTrait, ids: &[i64]) -> Result<HashMap<i64, i64>> {
    let counted: Vec<(i64, i64)> = tags::Entity::find()
        .select_only()
        .column(tags::Column::RepositoryId)
        .column_as(tags::Column::Id.count(), "tags")
        .filter(tags::Column::RepositoryId.is_in(ids.iter().copied()))
        .group_by(tags::Column::RepositoryId)
        .into_tuple()
        .all(db)
        .await?;
    Ok(counted.into_iter().collect())
}

/// Returns the first tags of repositories in byte order; repositories without tags are absent.
async fn names_of(db: &impl ConnectionTrait, ids: &[i64]) -> Result<HashMap<i64, Vec<String>>> {
    let mut names: HashMap<i64, Vec<String>> = HashMap::new();
    let Some(statement) = first_tags(ids) else {
        return Ok(names);
    };
    for row in db.query_all(&statement).await? {
        let id: i64 = row.try_get("", "repository_id")?;
        names.entry(id).or_default().push(row.try_get("", "name")?);
    }
    // A union has no order of its own.
    names.values_mut().for_each(|names| names.sort_unstable());
    Ok(names)
}

/// Combines the first tags of some repositories into one statement, each read from an index.
fn first_tags(ids: &[i64]) -> Option<SelectStatement> {
    const FIRST: &str = "first";
    let share = MAX_TAGS.checked_div(ids.len())?.max(MIN_TAGS) as u64;
    let each = ids.iter().map(|id| {
        let first = tags::of_repository(*id)
            .select_only()
            .column(tags::Column::RepositoryId)
            .column(tags::Column::Name)
            .order_by_asc(tags::Column::Name)
            .limit(share)
            .into_query();
        Query::select()
            .columns([Alias::new("repository_id"), Alias::new("name")])
            .from_subquery(first, FIRST)
            .take()
    });
    each.reduce(|mut all, one| {
        all.union(UnionType::All, one);
        all
    })
}
