//! The versions and tags of a package.

use std::collections::{BTreeMap, HashMap};

use parsers::npm::{NpmName, NpmVersion};
use serde_json::{Map, Value};
use storage::entities::packages::PackageType;

use super::manifest::StoredManifest;
use super::parse_name;
use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::packages::client_lists::{self, PackageScope};

/// A package with its versions.
#[derive(Debug, Clone, PartialEq)]
pub struct NpmPackageDetail {
    /// The name.
    pub name: NpmName,
    /// The versions, lowest first.
    pub versions: Vec<NpmVersionDetail>,
    /// The version of each tag.
    pub tags: BTreeMap<String, String>,
}

/// A version of a package.
#[derive(Debug, Clone, PartialEq)]
pub struct NpmVersionDetail {
    /// The version.
    pub version: NpmVersion,
    /// The SHA-1 digest of the archive in hexadecimal digits.
    pub shasum: String,
    /// The SHA-512 digest of the archive, as subresource integrity.
    pub integrity: String,
    /// The deprecation message.
    pub deprecated: Option<String>,
    /// The attributes of the uploaded manifest.
    pub manifest: Map<String, Value>,
}

/// Returns a package with its versions. If several projects of a group have the same version, the version that was uploaded
/// last is returned.
///
/// # Errors
/// Returns `InvalidParameters` if the name is invalid, and `Forbidden` if the packages of the project are disabled. Returns
/// `NotFound` if the package does not exist; `Unauthorized` in place of it for a client without credentials in a group.
/// Returns `Overloaded` if too little memory is left.
pub async fn get(backend: &Backend, scope: &PackageScope<'_>, name: &str) -> Result<NpmPackageDetail> {
    let name = parse_name(name)?;
    let found = client_lists::documents(backend, scope, PackageType::Npm, name.as_str()).await?;
    // The parsed documents take about as much memory as their texts.
    let size = found.iter().map(|document| document.content.len() as u64).sum();
    scope.caller().reserve_memory(size)?;
    let versions = by_version(found, |document| document.version.as_str());
    if versions.is_empty() {
        return Err(scope.not_found());
    }
    let ids: Vec<(i64, &str)> = versions
        .iter()
        .map(|(version, document)| (document.package_id, version.as_str()))
        .collect();
    let tags = tags_of(backend, &ids).await?;
    let mut details = Vec::new();
    for (version, document) in versions {
        let StoredManifest {
            shasum,
            integrity,
            deprecated,
            manifest,
        } = StoredManifest::parse(&document.content)?;
        details.push(NpmVersionDetail {
            version,
            shasum,
            integrity,
            deprecated,
            manifest,
        });
    }
    Ok(NpmPackageDetail {
        name,
        versions: details,
        tags,
    })
}

/// Returns the version of each tag of a package. If no version has the tag `latest`, it is the tag of the highest version.
///
/// # Errors
/// Returns the errors of [`get`].
pub(super) async fn tags(
    backend: &Backend,
    scope: &PackageScope<'_>,
    name: &str,
) -> Result<BTreeMap<String, String>> {
    let name = parse_name(name)?;
    let found = client_lists::by_name(backend, scope, PackageType::Npm, name.as_str()).await?;
    let versions = by_version(found, |package| package.version.as_str());
    if versions.is_empty() {
        return Err(scope.not_found());
    }
    let ids: Vec<(i64, &str)> = versions
        .iter()
        .map(|(version, package)| (package.id, version.as_str()))
        .collect();
    tags_of(backend, &ids).await
}

/// Returns rows by their versions. Later rows replace earlier rows with the same version.
fn by_version<T>(rows: Vec<T>, version: impl Fn(&T) -> &str) -> BTreeMap<NpmVersion, T> {
    // Uploads accept only valid versions.
    let rows = rows
        .into_iter()
        .filter_map(|row| Some((NpmVersion::parse(version(&row)).ok()?, row)));
    rows.collect()
}

/// Returns the version of each tag. The versions are in ascending order.
async fn tags_of(backend: &Backend, versions: &[(i64, &str)]) -> Result<BTreeMap<String, String>> {
    let ids: Vec<i64> = versions.iter().map(|(id, _)| *id).collect();
    let texts: HashMap<i64, &str> = versions.iter().copied().collect();
    let mut tags: BTreeMap<String, String> = client_lists::tags_of(backend, &ids)
        .await?
        .into_iter()
        .filter_map(|tag| Some((tag.tag, (*texts.get(&tag.package_id)?).to_owned())))
        .collect();
    if let Some((_, highest)) = versions.last() {
        tags.entry("latest".to_owned())
            .or_insert_with(|| (*highest).to_owned());
    }
    Ok(tags)
}
