//! Lists of packages and their files, and single packages.

use std::collections::{BTreeSet, HashMap};

use chrono::{DateTime, Utc};
use sea_orm::sea_query::{Expr, ExprTrait, Order, Query};
use sea_orm::{ColumnTrait, ConnectionTrait, DbBackend, EntityTrait, QueryFilter, QueryOrder, Select};
use storage::entities::packages::{self, Column, Entity, PackageStatus, PackageType};
use storage::entities::related_rows::{
    PartKey, RelatedPart, RelatedRow, RelatedRowSets, RelatedRows, bigint,
};
use storage::entities::row_conditions::by_code_points;
use storage::entities::{fold, package_files, package_tags};

use super::access::{check_access, readable_projects};
use crate::identity::access::{GroupAccess, ProjectAccess};
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{MAX_OFFSET, Page, PagePosition, PageRequest};
use crate::kernel::policy::Role;
use crate::kernel::query::{PageTotal, contains, page_of, uncounted_page_of};
use crate::kernel::urls;

/// Maximum number of other versions of a package.
const MAX_VERSIONS: u64 = 1_000;

/// Sort order of a list of packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackageOrder {
    /// By the time of creation.
    CreatedAt,
    /// By the name.
    Name,
    /// By the version, as a text.
    Version,
    /// By the format.
    Type,
}

/// Filter and sort order of a list of packages.
#[derive(Debug, Clone)]
pub struct PackageFilter {
    /// The sort order.
    pub order: PackageOrder,
    /// Whether the order is descending.
    pub descending: bool,
    /// Only packages of these formats; no packages if the list is empty.
    pub package_types: Option<Vec<PackageType>>,
    /// Only packages whose name contains this text, in any case.
    pub name: Option<String>,
    /// Only packages with this version.
    pub version: Option<String>,
    /// Whether packages without a version are included: the metadata of Maven artifacts.
    pub include_versionless: bool,
    /// Only packages with this status; by default those that are not hidden.
    pub status: Option<PackageStatus>,
}

/// A package with its related rows.
#[derive(Debug, Clone)]
pub struct PackageDetail {
    /// The package.
    pub package: packages::Model,
    /// The full path of the project.
    pub full_path: String,
    /// Whether the caller can delete the package.
    pub can_delete: bool,
    /// The tags, by ID.
    pub tags: Vec<PackageTag>,
}

/// A tag of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageTag {
    /// The ID.
    pub id: i64,
    /// The tag.
    pub name: String,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// When it was last moved.
    pub updated_at: DateTime<Utc>,
}

/// Another version of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageVersion {
    /// The ID.
    pub id: i64,
    /// The version.
    pub version: String,
    /// When it was created.
    pub created_at: DateTime<Utc>,
}

impl PackageDetail {
    fn new(access: &ProjectAccess, package: packages::Model, tags: Vec<PackageTag>) -> Self {
        Self {
            full_path: urls::project_path(&access.namespace, &access.project),
            can_delete: access.has_role(Role::Maintainer) && !access.project.archived,
            package,
            tags,
        }
    }
}

/// Returns a page of the packages of a project.
///
/// # Errors
/// Returns `Error::Forbidden` if the packages of the project are disabled, and `Error::NotAllowed` if the page reaches beyond
/// `MAX_OFFSET`.
pub async fn list(
    backend: &Backend,
    access: &ProjectAccess,
    filter: &PackageFilter,
    page: &PageRequest,
) -> Result<Page<PackageDetail>> {
    check_access(access)?;
    check_offset(page)?;
    let db = backend.database.read();
    let all = packages::of_project(access.project.id);
    let query = filtered(db.get_database_backend(), all, filter);
    let (rows, total) = uncounted_page_of(db, query, page).await?;
    let (mut tags, rest) = related(backend, &rows, total).await?;
    let details = rows.into_iter().map(|package| {
        let tags = tags.remove(&package.id).unwrap_or_default();
        PackageDetail::new(access, package, tags)
    });
    Ok(Page {
        items: details.collect(),
        rest,
    })
}

/// Returns a page of the packages of the projects of a group that the caller can read. Subgroups are included unless
/// `exclude_subgroups`.
///
/// # Errors
/// Returns `Error::NotAllowed` as [`list`].
pub async fn list_of_group(
    backend: &Backend,
    access: &GroupAccess,
    filter: &PackageFilter,
    exclude_subgroups: bool,
    page: &PageRequest,
) -> Result<Page<PackageDetail>> {
    check_offset(page)?;
    let readable = readable_projects(&access.caller, access.group.id, exclude_subgroups);
    let db = backend.database.read();
    let all = Entity::find().filter(Column::ProjectId.in_subquery(readable));
    let query = filtered(db.get_database_backend(), all, filter);
    let (rows, total) = uncounted_page_of(db, query, page).await?;
    let (mut tags, rest) = related(backend, &rows, total).await?;
    let ids: BTreeSet<i64> = rows.iter().map(|package| package.project_id).collect();
    let accesses = ProjectAccess::find_all(backend, &access.caller, ids).await?;
    let details = rows.into_iter().filter_map(|package| {
        let tags = tags.remove(&package.id).unwrap_or_default();
        // A project can be deleted since the page was read.
        let access = accesses.get(&package.project_id)?;
        Some(PackageDetail::new(access, package, tags))
    });
    Ok(Page {
        items: details.collect(),
        rest,
    })
}

fn check_offset(page: &PageRequest) -> Result<()> {
    if page.is_beyond_max_offset() {
        let text = format!(
            "Offset pagination has a maximum allowed offset of {MAX_OFFSET} for requests that return objects of type \
             Package. Use filters to find the remaining records."
        );
        return Err(Error::NotAllowed(Some(text.into())));
    }
    Ok(())
}

fn filtered(database: DbBackend, mut query: Select<Entity>, filter: &PackageFilter) -> Select<Entity> {
    // The forms of the columns in the indexes.
    let name_key = by_code_points(database, Column::NameKey.into_expr());
    let package_version = by_code_points(database, Column::Version.into_expr());
    query = query.filter(Column::Status.eq(filter.status.unwrap_or(PackageStatus::Default)));
    if let Some(kinds) = &filter.package_types {
        query = query.filter(Column::PackageType.is_in(kinds.iter().copied()));
    }
    if let Some(name) = &filter.name {
        query = query.filter(contains(Column::NameKey, &fold(name)));
    }
    if let Some(version) = &filter.version {
        query = query.filter(package_version.clone().eq(version.as_str()));
    }
    if !filter.include_versionless {
        query = query.filter(Column::Version.ne(""));
    }
    let column = match filter.order {
        PackageOrder::CreatedAt => Column::CreatedAt.into_expr(),
        PackageOrder::Name => name_key,
        PackageOrder::Version => package_version,
        PackageOrder::Type => Column::PackageType.into_expr(),
    };
    let direction = match filter.descending {
        true => Order::Desc,
        false => Order::Asc,
    };
    query
        .order_by(column, direction.clone())
        .order_by(Column::Id, direction)
}

/// Returns the tags of packages by the ID of the package, and the position of the page.
async fn related(
    backend: &Backend,
    rows: &[packages::Model],
    total: PageTotal,
) -> Result<(HashMap<i64, Vec<PackageTag>>, PagePosition)> {
    let db = backend.database.read();
    let mut related = RelatedRows::default();
    let counted = related.add(total.part());
    let tags = TagParts::add(&mut related, db, rows);
    let mut found = related.load(db).await?;
    let position = total.position(&found.take(counted));
    Ok((tags.take(&mut found), position))
}

/// The parts of a statement with the tags of packages. Each part returns one of the two times.
struct TagParts {
    created: PartKey,
    updated: PartKey,
}

impl TagParts {
    fn add(related: &mut RelatedRows, db: &impl ConnectionTrait, rows: &[packages::Model]) -> Self {
        // Only packages of npm have tags.
        let tagged = rows.iter().filter(|row| row.package_type == PackageType::Npm);
        let ids: Vec<i64> = tagged.map(|row| row.id).collect();
        let part = |time: package_tags::Column| {
            let rows = Query::select().from(package_tags::Entity).take();
            let owner = package_tags::Column::PackageId.into_expr();
            let part = RelatedPart::of_owners(db.get_database_backend(), rows, owner, &ids)?;
            let part = part.with_id(package_tags::Column::Id.into_expr());
            let part = part.with_texts([package_tags::Column::Tag.into_expr()]);
            Some(part.with_time(time.into_expr()))
        };
        let created = part(package_tags::Column::CreatedAt);
        let updated = part(package_tags::Column::UpdatedAt);
        Self {
            created: related.add(created),
            updated: related.add(updated),
        }
    }

    fn take(self, rows: &mut RelatedRowSets) -> HashMap<i64, Vec<PackageTag>> {
        let updated = rows.take_by_id(self.updated, |row| row.time);
        let mut tags: HashMap<i64, Vec<PackageTag>> = HashMap::new();
        for RelatedRow {
            owner_id,
            id,
            time,
            texts: [name, ..],
            ..
        } in rows.take(self.created)
        {
            let created_at = time.unwrap_or_default();
            tags.entry(owner_id).or_default().push(PackageTag {
                id,
                name: name.unwrap_or_default(),
                created_at,
                updated_at: updated.get(&id).copied().flatten().unwrap_or(created_at),
            });
        }
        for tags in tags.values_mut() {
            tags.sort_unstable_by_key(|tag| tag.id);
        }
        tags
    }
}

/// Returns a package of a project, and its other versions, newest first.
///
/// # Errors
/// Returns `Error::NotFound` if the project has no such package, and `Error::Forbidden` if the packages of the project are
/// disabled.
pub async fn get(
    backend: &Backend,
    access: &ProjectAccess,
    id: i64,
) -> Result<(PackageDetail, Vec<PackageVersion>)> {
    let package = find(backend, access, id).await?;
    let db = backend.database.read();
    let mut related = RelatedRows::default();
    let versions = related.add(Some(versions_part(&package)));
    let tags = TagParts::add(&mut related, db, std::slice::from_ref(&package));
    let mut found = related.load(db).await?;
    let mut versions: Vec<PackageVersion> = found.take(versions).into_iter().map(version).collect();
    versions.sort_unstable_by_key(|version| std::cmp::Reverse(version.id));
    let tags = tags.take(&mut found).remove(&package.id).unwrap_or_default();
    Ok((PackageDetail::new(access, package, tags), versions))
}

fn versions_part(package: &packages::Model) -> RelatedPart {
    const VERSIONS: &str = "versions";
    let newest = Query::select()
        .columns([Column::Id, Column::Version, Column::CreatedAt])
        .from(Entity)
        .and_where(Column::ProjectId.eq(package.project_id))
        .and_where(Column::PackageType.eq(package.package_type))
        .and_where(Column::LookupName.eq(package.lookup_name.as_str()))
        .and_where(Column::Status.eq(PackageStatus::Default))
        .and_where(Column::Id.ne(package.id))
        .and_where(Column::Version.ne(""))
        .order_by(Column::Id, Order::Desc)
        .limit(MAX_VERSIONS)
        .take();
    let rows = Query::select().from_subquery(newest, VERSIONS).take();
    RelatedPart::new(rows, bigint(Expr::val(package.id)))
        .with_id(Expr::col((VERSIONS, Column::Id)))
        .with_time(Expr::col((VERSIONS, Column::CreatedAt)))
        .with_texts([Expr::col((VERSIONS, Column::Version))])
}

fn version(row: RelatedRow) -> PackageVersion {
    let [version, ..] = row.texts;
    PackageVersion {
        id: row.id,
        version: version.unwrap_or_default(),
        created_at: row.time.unwrap_or_default(),
    }
}

/// Returns a page of the files of a package, oldest first.
///
/// # Errors
/// As [`get`].
pub async fn list_files(
    backend: &Backend,
    access: &ProjectAccess,
    package_id: i64,
    page: &PageRequest,
) -> Result<Page<package_files::Model>> {
    let package = find(backend, access, package_id).await?;
    let query = package_files::of_package(package.id).order_by_asc(package_files::Column::Id);
    page_of(backend.database.read(), query, page).await
}

async fn find(backend: &Backend, access: &ProjectAccess, id: i64) -> Result<packages::Model> {
    check_access(access)?;
    let found = packages::of_project(access.project.id).filter(Column::Id.eq(id));
    let found = found.one(backend.database.read()).await?;
    found.ok_or_else(|| Error::not_found(""))
}
