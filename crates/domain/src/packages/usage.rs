//! Use of the package registry by format, for metrics.

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use sea_orm::sea_query::Expr;
use sea_orm::{EntityTrait, ExprTrait, FromQueryResult, JoinType, QuerySelect};
use storage::entities::package_files;
use storage::entities::packages::{self, Column, PackageType};

use super::metric_names::{DOWNLOAD_BYTES, DOWNLOADS, UPLOAD_BYTES, UPLOADS};
use crate::kernel::Backend;
use crate::kernel::error::Result;

/// Stored packages of a format.
#[derive(Debug, Clone, PartialEq, Eq, FromQueryResult)]
pub struct StoredPackages {
    /// The format.
    pub package_type: PackageType,
    /// Number of packages. Each version is one package.
    pub packages: i64,
    /// Number of files.
    pub files: i64,
    /// Total size of the files in bytes.
    pub total_bytes: i64,
}

/// Returns the stored packages of each format that has packages, in one statement that reads all packages and files.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn stored_packages(backend: &Backend) -> Result<Vec<StoredPackages>> {
    let file = |column| Expr::col((package_files::Entity, column));
    let files = packages::Entity::belongs_to(package_files::Entity)
        .from(Column::Id)
        .to(package_files::Column::PackageId);
    let found = packages::Entity::find()
        .select_only()
        .column(Column::PackageType)
        .column_as(
            Expr::col((packages::Entity, Column::Id)).count_distinct(),
            "packages",
        )
        .column_as(file(package_files::Column::Id).count(), "files")
        .column_as(
            file(package_files::Column::Size)
                .sum()
                .if_null(0)
                .cast_as("bigint"),
            "total_bytes",
        )
        .join(JoinType::LeftJoin, files.into())
        .group_by(Column::PackageType)
        .into_model::<StoredPackages>()
        .all(backend.database.read())
        .await?;
    Ok(found)
}

/// Returns the name of a format, as in the contract.
#[must_use]
pub fn format_name(kind: PackageType) -> &'static str {
    match kind {
        PackageType::Generic => "generic",
        PackageType::Npm => "npm",
        PackageType::Pypi => "pypi",
        PackageType::Cargo => "cargo",
        PackageType::Maven => "maven",
    }
}

/// Counts a stored file.
pub(super) fn count_upload(kind: PackageType, bytes: u64) {
    let format = format_name(kind);
    metrics::counter!(UPLOADS, "format" => format).increment(1);
    metrics::counter!(UPLOAD_BYTES, "format" => format).increment(bytes);
}

/// Counts a download, and the bytes of its content when they are read.
pub(super) fn count_download(
    kind: PackageType,
    content: BoxStream<'static, std::io::Result<Bytes>>,
) -> BoxStream<'static, std::io::Result<Bytes>> {
    let format = format_name(kind);
    metrics::counter!(DOWNLOADS, "format" => format).increment(1);
    let bytes = metrics::counter!(DOWNLOAD_BYTES, "format" => format);
    let counted = content.inspect(move |part| {
        if let Ok(part) = part {
            bytes.increment(part.len() as u64);
        }
    });
    counted.boxed()
}
