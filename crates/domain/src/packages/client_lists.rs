//! Lists of packages for package managers, by the name of the package.

use std::collections::HashMap;

use sea_orm::sea_query::Expr;
use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, JoinType, QueryFilter, QueryOrder, QuerySelect, Select,
};
use storage::entities::packages::{self, Column, PackageStatus, PackageType};
use storage::entities::row_conditions::{by_code_points, is_among};
use storage::entities::{package_files, package_metadata, package_tags};

use super::access::{check_access, readable_projects};
use crate::identity::access::{GroupAccess, ProjectAccess};
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::kernel::query::text_bytes;

/// Maximum number of rows of a list.
const MAX_ROWS: u64 = 10_000;

/// The projects whose packages a request concerns.
#[derive(Debug, Clone, Copy)]
pub enum PackageScope<'a> {
    /// One project.
    Project(&'a ProjectAccess),
    /// The projects in a group and its subgroups whose packages the caller can read.
    Group {
        /// The caller.
        caller: &'a Caller,
        /// The group.
        group_id: i64,
    },
    /// A project that the name of a package names, if the caller can read its packages.
    NamedProject {
        /// The caller.
        caller: &'a Caller,
        /// The project.
        project_id: i64,
        /// The namespace of the project.
        namespace_id: i64,
    },
}

impl<'a> PackageScope<'a> {
    /// Returns the scope of a group.
    #[must_use]
    pub fn of_group(access: &'a GroupAccess) -> Self {
        Self::Group {
            caller: &access.caller,
            group_id: access.group.id,
        }
    }

    /// Returns the caller.
    pub(super) fn caller(&self) -> &Caller {
        match self {
            Self::Project(access) => &access.caller,
            Self::Group { caller, .. } | Self::NamedProject { caller, .. } => caller,
        }
    }

    /// Returns the error for a package that is not in the scope. Unless the project is in the path, a client without
    /// credentials is asked for them, because the package can be in a project that the client cannot see.
    pub(super) fn not_found(&self) -> Error {
        match self {
            Self::Project(_) => Error::not_found("Package"),
            _ if !self.caller().is_known() => Error::Unauthorized,
            _ => Error::not_found("Package"),
        }
    }

    /// Limits a query to the packages of the scope.
    ///
    /// # Errors
    /// Returns `Forbidden` if the packages of the project are disabled.
    pub(super) fn limit<Q: QueryFilter>(&self, query: Q) -> Result<Q> {
        Ok(match self {
            Self::Project(access) => {
                check_access(access)?;
                query.filter(Column::ProjectId.eq(access.project.id))
            }
            Self::Group { caller, group_id } => {
                query.filter(Column::ProjectId.in_subquery(readable_projects(caller, *group_id, false)))
            }
            Self::NamedProject {
                caller,
                project_id,
                namespace_id,
            } => query
                .filter(Column::ProjectId.eq(*project_id))
                .filter(Column::ProjectId.in_subquery(readable_projects(caller, *namespace_id, true))),
        })
    }

    /// Selects the packages of a format that are in lists.
    pub(super) fn listed(&self, kind: PackageType) -> Result<Select<packages::Entity>> {
        let query = packages::Entity::find()
            .filter(Column::PackageType.eq(kind))
            .filter(Column::Status.eq(PackageStatus::Default));
        self.limit(query)
    }
}

/// Returns the versions of a package, oldest first.
///
/// # Errors
/// Returns `Forbidden` if the packages of the project are disabled.
pub async fn by_name(
    backend: &Backend,
    scope: &PackageScope<'_>,
    kind: PackageType,
    lookup_name: &str,
) -> Result<Vec<packages::Model>> {
    let mut found = scope
        .listed(kind)?
        .filter(Column::LookupName.eq(lookup_name))
        .order_by_desc(Column::Id)
        .limit(MAX_ROWS)
        .all(backend.database.read())
        .await?;
    found.reverse();
    Ok(found)
}

/// Returns the names of all packages of a format, sorted by code point, without the names after the first `MAX_ROWS`.
/// Reserves the memory of the names.
///
/// # Errors
/// Returns `Forbidden` if the packages of the project are disabled, and `Overloaded` if too little memory is left.
pub async fn names(backend: &Backend, scope: &PackageScope<'_>, kind: PackageType) -> Result<Vec<String>> {
    let db = backend.database.read();
    let names: Vec<String> = scope
        .listed(kind)?
        .select_only()
        .column(Column::LookupName)
        .group_by(Column::LookupName)
        .order_by_asc(by_code_points(
            db.get_database_backend(),
            Column::LookupName.into_expr(),
        ))
        .limit(MAX_ROWS)
        .into_tuple()
        .all(db)
        .await?;
    let size: usize = names.iter().map(|name| size_of::<String>() + name.len()).sum();
    scope.caller().reserve_memory(size as u64)?;
    Ok(names)
}

/// Returns a condition that a column is one of these IDs.
fn among(db: &impl ConnectionTrait, column: Expr, ids: &[i64]) -> Expr {
    is_among(db.get_database_backend(), column, ids.iter().copied())
}

/// A file of a package in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedFile {
    /// The name.
    pub file_name: String,
    /// The size in bytes.
    pub size: i64,
    /// The SHA-256 in hex.
    pub sha256: String,
    /// The versions of Python that the file supports.
    pub requires_python: Option<String>,
}

impl ListedFile {
    /// Returns the memory of the file in bytes.
    fn memory(&self) -> usize {
        let requires_python = self.requires_python.as_ref().map_or(0, String::len);
        size_of::<Self>() + self.file_name.len() + self.sha256.len() + requires_python
    }
}

/// Returns the files of packages, oldest first. Reserves the memory of the files.
///
/// # Errors
/// Returns `Overloaded` if too little memory is left.
pub async fn files_of(backend: &Backend, caller: &Caller, package_ids: &[i64]) -> Result<Vec<ListedFile>> {
    let db = backend.database.read();
    let found: Vec<(String, i64, String, Option<String>)> = package_files::Entity::find()
        .select_only()
        .column(package_files::Column::FileName)
        .column(package_files::Column::Size)
        .column(package_files::Column::Sha256)
        .column(package_files::Column::RequiresPython)
        .filter(among(
            db,
            package_files::Column::PackageId.into_expr(),
            package_ids,
        ))
        .order_by_desc(package_files::Column::Id)
        .limit(MAX_ROWS)
        .into_tuple()
        .all(db)
        .await?;
    let oldest_first = found.into_iter().rev();
    let files: Vec<ListedFile> = oldest_first
        .map(|(file_name, size, sha256, requires_python)| ListedFile {
            file_name,
            size,
            sha256,
            requires_python,
        })
        .collect();
    let size: usize = files.iter().map(ListedFile::memory).sum();
    caller.reserve_memory(size as u64)?;
    Ok(files)
}

/// A version of a package that has a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedVersion {
    /// The ID of the package.
    pub package_id: i64,
    /// The version.
    pub version: String,
    /// The size of the document in bytes.
    pub document_bytes: u64,
}

/// Returns the versions of a package that have documents, oldest first, without the documents.
///
/// # Errors
/// Returns `Forbidden` if the packages of the project are disabled.
pub async fn versions(
    backend: &Backend,
    scope: &PackageScope<'_>,
    kind: PackageType,
    lookup_name: &str,
) -> Result<Vec<ListedVersion>> {
    let document = packages::Entity::belongs_to(package_metadata::Entity)
        .from(Column::Id)
        .to(package_metadata::Column::PackageId);
    let content = Expr::col((package_metadata::Entity, package_metadata::Column::Content));
    let found: Vec<(i64, String, i64)> = scope
        .listed(kind)?
        .filter(Column::LookupName.eq(lookup_name))
        .join(JoinType::InnerJoin, document.into())
        .select_only()
        .column(Column::Id)
        .column(Column::Version)
        .column_as(text_bytes(content), "size")
        .order_by_desc(Column::Id)
        .limit(MAX_ROWS)
        .into_tuple()
        .all(backend.database.read())
        .await?;
    let oldest_first = found.into_iter().rev();
    let versions = oldest_first.map(|(package_id, version, size)| ListedVersion {
        package_id,
        version,
        document_bytes: u64::try_from(size).unwrap_or_default(),
    });
    Ok(versions.collect())
}

/// Returns the documents of versions by the ID of the package. Reserves the memory of the documents before it reads
/// them.
///
/// # Errors
/// Returns `Overloaded` if too little memory is left.
pub async fn documents<'a>(
    backend: &Backend,
    caller: &Caller,
    versions: impl Iterator<Item = &'a ListedVersion>,
) -> Result<HashMap<i64, String>> {
    let (mut ids, mut size) = (Vec::new(), 0_u64);
    for version in versions {
        ids.push(version.package_id);
        size = size.saturating_add(version.document_bytes);
    }
    // While they are read, the documents exist twice: as rows of the database and as texts.
    caller.reserve_memory(size.saturating_mul(2))?;
    let db = backend.database.read();
    let found: Vec<(i64, String)> = package_metadata::Entity::find()
        .select_only()
        .column(package_metadata::Column::PackageId)
        .column(package_metadata::Column::Content)
        .filter(among(db, package_metadata::Column::PackageId.into_expr(), &ids))
        .into_tuple()
        .all(db)
        .await?;
    caller.release_memory(size);
    // Documents can grow between both statements.
    let read: usize = found.iter().map(|(_, content)| content.len()).sum();
    caller.reserve_memory((read as u64).saturating_sub(size))?;
    Ok(found.into_iter().collect())
}

/// Returns the tags of packages, oldest first.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn tags_of(backend: &Backend, package_ids: &[i64]) -> Result<Vec<package_tags::Model>> {
    let db = backend.database.read();
    let found = package_tags::Entity::find()
        .filter(among(
            db,
            package_tags::Column::PackageId.into_expr(),
            package_ids,
        ))
        .order_by_asc(package_tags::Column::Id)
        .limit(MAX_ROWS);
    Ok(found.all(db).await?)
}
