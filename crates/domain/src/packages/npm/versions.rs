//! The versions and tags of a package.

use std::collections::{BTreeMap, HashMap};

use parsers::npm::{NpmName, NpmVersion};
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
    /// The stored document.
    document: String,
}

impl NpmVersionDetail {
    /// Parses the document about the version. A parsed document can take fifteen times as much memory as its text, so
    /// callers parse one at a time.
    ///
    /// # Errors
    /// Returns an internal error if the document is invalid.
    pub fn manifest(&self) -> Result<StoredManifest> {
        StoredManifest::parse(&self.document)
    }
}

/// Returns a package with its versions. If several projects of a group have the same version, the version that was
/// uploaded last is returned.
///
/// # Errors
/// Returns `InvalidParameters` if the name is invalid, and `Forbidden` if the packages of the project are disabled.
/// Returns `NotFound` if the package does not exist; `Unauthorized` in place of it for a client without credentials in
/// a group. Returns `Overloaded` if too little memory is left.
pub async fn get(backend: &Backend, scope: &PackageScope<'_>, name: &str) -> Result<NpmPackageDetail> {
    let name = parse_name(name)?;
    let found = client_lists::versions(backend, scope, PackageType::Npm, name.as_str()).await?;
    let versions = by_version(found, |listed| listed.version.as_str());
    if versions.is_empty() {
        return Err(scope.not_found());
    }
    let ids: Vec<(i64, &str)> = versions
        .iter()
        .map(|(version, listed)| (listed.package_id, version.as_str()))
        .collect();
    let tags = tags_of(backend, &ids).await?;
    let mut documents = client_lists::documents(backend, scope.caller(), versions.values()).await?;
    // A version that was deleted meanwhile has no document any more.
    let details = versions.into_iter().filter_map(|(version, listed)| {
        let document = documents.remove(&listed.package_id)?;
        Some(NpmVersionDetail { version, document })
    });
    Ok(NpmPackageDetail {
        name,
        versions: details.collect(),
        tags,
    })
}

/// Returns the version of each tag of a package. If no version has the tag `latest`, it is the tag of the highest
/// version.
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
