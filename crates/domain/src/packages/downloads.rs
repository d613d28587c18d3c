//! Downloads of package files.

use chrono::TimeDelta;
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, Condition, EntityTrait, QueryFilter, QueryOrder, QuerySelect, Select};
use storage::entities::packages::{self, Column, PackageType};
use storage::entities::{now, package_blobs, package_files};

use super::access::check_access;
use super::client_lists::PackageScope;
use super::usage::count_download;
use crate::accounts::uploads;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::download::{Download, DownloadContent};
use crate::kernel::error::{Error, Result};

/// Resolution of the time of the last download, so that most downloads write nothing.
const DOWNLOAD_TIME_RESOLUTION: TimeDelta = TimeDelta::minutes(5);

/// Opens the newest file with a name, of packages with this name and version, or of any version.
///
/// # Errors
/// Returns `Error::NotFound` if the file does not exist, and `Error::Forbidden` if the packages of the project are
/// disabled.
pub async fn open_by_name(
    backend: &Backend,
    scope: &PackageScope<'_>,
    kind: PackageType,
    lookup_name: &str,
    version: Option<&str>,
    file_name: &str,
) -> Result<Download> {
    let query = files_by_name(scope, kind, lookup_name, version, file_name)?;
    Ok(open(backend, query).await?.1)
}

/// Selects the files with a name, of packages with this name and version, or of any version.
///
/// # Errors
/// Returns `Error::Forbidden` if the packages of the project are disabled.
pub(super) fn files_by_name(
    scope: &PackageScope<'_>,
    kind: PackageType,
    lookup_name: &str,
    version: Option<&str>,
    file_name: &str,
) -> Result<Select<package_files::Entity>> {
    let mut query = package_files::Entity::find()
        .filter(package_files::Column::FileName.eq(file_name))
        .filter(Column::PackageType.eq(kind))
        .filter(Column::LookupName.eq(lookup_name));
    if let Some(version) = version {
        query = query.filter(Column::Version.eq(version));
    }
    scope.limit(query)
}

/// Opens the file with a SHA-256 and a name.
///
/// # Errors
/// As [`open_by_name`].
pub async fn open_by_digest(
    backend: &Backend,
    scope: &PackageScope<'_>,
    kind: PackageType,
    sha256: &str,
    file_name: &str,
) -> Result<Download> {
    let query = package_files::Entity::find()
        .filter(package_files::Column::Sha256.eq(sha256))
        .filter(package_files::Column::FileName.eq(file_name))
        .filter(Column::PackageType.eq(kind));
    Ok(open(backend, scope.limit(query)?).await?.1)
}

/// Opens a file of a package by its ID.
///
/// # Errors
/// As [`open_by_name`].
pub async fn open_by_id(
    backend: &Backend,
    access: &ProjectAccess,
    package_id: i64,
    file_id: i64,
) -> Result<Download> {
    check_access(access)?;
    let query = package_files::of_package(package_id)
        .filter(package_files::Column::Id.eq(file_id))
        .filter(Column::ProjectId.eq(access.project.id));
    Ok(open(backend, query).await?.1)
}

/// Returns the newest file of a query, whose conditions can contain columns of packages.
///
/// # Errors
/// Returns `Error::NotFound` if the query has no file.
pub(super) async fn find(
    backend: &Backend,
    query: Select<package_files::Entity>,
) -> Result<package_files::Model> {
    let found = query
        .find_also_related(packages::Entity)
        .order_by_desc(package_files::Column::Id)
        .limit(1)
        .one(backend.database.read())
        .await?;
    found
        .map(|(file, _)| file)
        .ok_or_else(|| Error::not_found("File"))
}

/// Opens the newest file of a query, whose conditions can contain columns of packages.
///
/// # Errors
/// Returns `Error::NotFound` if the query has no file.
pub(super) async fn open(
    backend: &Backend,
    query: Select<package_files::Entity>,
) -> Result<(package_files::Model, Download)> {
    let found = query
        .find_also_related(packages::Entity)
        .find_also_related(package_blobs::Entity)
        .order_by_desc(package_files::Column::Id)
        .limit(1)
        .one(backend.database.read())
        .await?;
    let Some((file, Some(package), Some(blob))) = found else {
        return Err(Error::not_found("File"));
    };
    record_download(backend, &package).await?;
    let (objects, kind) = (backend.objects.clone(), package.package_type);
    let mut headers = uploads::safe_headers();
    headers.push(("X-Checksum-SHA256", file.sha256.clone()));
    let download = Download {
        content_type: "application/octet-stream".to_owned(),
        file_name: file.file_name.clone(),
        attachment: true,
        etag: Some(file.sha256.clone()),
        headers,
        content: DownloadContent::Seekable {
            size: u64::try_from(file.size).unwrap_or(0),
            open: Box::new(move |start, end| count_download(kind, objects.read(&blob.key, start, end))),
        },
    };
    Ok((file, download))
}

async fn record_download(backend: &Backend, package: &packages::Model) -> Result<()> {
    let time = now();
    let before = time - DOWNLOAD_TIME_RESOLUTION;
    if package.last_downloaded_at.is_some_and(|last| last > before) {
        return Ok(());
    }
    let is_old = Condition::any()
        .add(Column::LastDownloadedAt.is_null())
        .add(Column::LastDownloadedAt.lte(before));
    packages::Entity::update_many()
        .col_expr(Column::LastDownloadedAt, Expr::value(time))
        .filter(Column::Id.eq(package.id))
        .filter(is_old)
        .exec(backend.database.write())
        .await?;
    Ok(())
}
