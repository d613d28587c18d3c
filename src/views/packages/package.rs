//! Packages and their files.

use domain::kernel::urls::encode_segment;
use domain::packages::cleanup::CleanupPolicy;
use domain::packages::listing::{self, PackageDetail};
use serde::Serialize;
use serde_json::Value;
use storage::entities::{package_files, packages};

use crate::views::enums::Convert;
use contract::timestamp::Timestamp;
use contract::{
    GenericPackageSelection, Message, Package, PackageCleanupPolicy, PackageFile, PackageLinks, PackageTag,
    PackageVersion,
};

/// Returns a package; `base` is the base URL.
#[must_use]
pub fn package(base: &str, detail: PackageDetail) -> Package {
    let row = detail.package;
    let delete_path = || format!("{base}/api/v4/projects/{}/packages/{}", row.project_id, row.id);
    let tags = detail.tags.into_iter().map(|tag| PackageTag {
        id: tag.id,
        package_id: row.id,
        name: tag.name,
        created_at: tag.created_at.into(),
        updated_at: tag.updated_at.into(),
    });
    Package {
        id: row.id,
        // The metadata of a Maven artifact has no version.
        version: Some(row.version).filter(|version| !version.is_empty()),
        package_type: row.package_type.convert(),
        status: row.status.convert(),
        links: PackageLinks {
            web_path: format!("/{}/-/packages/{}", detail.full_path, row.id),
            delete_api_path: detail.can_delete.then(delete_path),
        },
        name: row.name,
        created_at: row.created_at.into(),
        last_downloaded_at: row.last_downloaded_at.map(Into::into),
        tags: tags.collect(),
        project_id: None,
        project_path: None,
        versions: None,
    }
}

/// Returns a package in the list of a group.
#[must_use]
pub fn package_of_group(base: &str, detail: PackageDetail) -> Package {
    let (project_id, path) = (detail.package.project_id, detail.full_path.clone());
    Package {
        project_id: Some(project_id),
        project_path: Some(path),
        ..package(base, detail)
    }
}

/// Returns a package with its other versions.
#[must_use]
pub fn package_with_versions(
    base: &str,
    detail: PackageDetail,
    versions: Vec<listing::PackageVersion>,
) -> Package {
    let versions = versions.into_iter().map(|version| PackageVersion {
        id: version.id,
        version: version.version,
        created_at: version.created_at.into(),
    });
    Package {
        versions: Some(versions.collect()),
        ..package(base, detail)
    }
}

/// Returns a file.
#[must_use]
pub fn file(row: package_files::Model) -> PackageFile {
    PackageFile {
        id: row.id,
        package_id: row.package_id,
        created_at: row.created_at.into(),
        file_name: row.file_name,
        size: row.size,
        file_md5: row.md5,
        file_sha1: row.sha1,
        file_sha256: row.sha256,
    }
}

/// Returns a cleanup policy.
#[must_use]
pub fn cleanup_policy(policy: CleanupPolicy) -> PackageCleanupPolicy {
    PackageCleanupPolicy {
        keep_n_duplicated_package_files: policy.kept_files.convert(),
        next_run_at: policy.next_run_at.map(Into::into),
    }
}

/// The schema `GenericPackageFile`. The contract has no types for the alternatives of a value.
#[derive(Serialize)]
struct GenericPackageFile {
    #[serde(flatten)]
    attributes: PackageFile,
    updated_at: Timestamp,
    status: &'static str,
    file: GenericPackageFileLocation,
}

/// The schema `GenericPackageFileLocation`.
#[derive(Serialize)]
struct GenericPackageFileLocation {
    url: String,
}

/// Returns an uploaded file of a generic package.
fn generic_file(base: &str, package: &packages::Model, row: package_files::Model) -> GenericPackageFile {
    let url = format!(
        "{base}/api/v4/projects/{}/packages/generic/{}/{}/{}",
        package.project_id,
        encode_segment(&package.name),
        encode_segment(&package.version),
        encode_segment(&row.file_name)
    );
    let attributes = file(row);
    GenericPackageFile {
        updated_at: attributes.created_at,
        attributes,
        status: "default",
        file: GenericPackageFileLocation { url },
    }
}

/// Returns the result of a publication: the file, or a message.
#[must_use]
pub fn publication(
    base: &str,
    (package, row): (packages::Model, package_files::Model),
    selection: Option<GenericPackageSelection>,
) -> Value {
    let view = match selection {
        Some(GenericPackageSelection::PackageFile) => serde_json::to_value(generic_file(base, &package, row)),
        None => serde_json::to_value(Message {
            message: "201 Created".to_owned(),
        }),
    };
    // The types of the contract can always be serialized.
    view.unwrap_or_default()
}
