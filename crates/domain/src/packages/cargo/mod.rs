//! Crates of Cargo: uploads, the sparse index, downloads and yanks, as `cargo` requests them.

mod publishing;
mod yanking;

use bytes::Bytes;
use parsers::cargo::{CrateName, CrateVersion, IndexEntry};
use sha2::{Digest, Sha256};
use storage::entities::Visibility;
use storage::entities::packages::PackageType;
use storage::entities::projects::FeatureAccess;

use super::access::check_access;
use super::client_lists::{self, PackageScope};
use super::downloads;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::download::{Download, DownloadContent};
use crate::kernel::error::{Error, Result};

pub use publishing::publish;
pub use yanking::set_yanked;

/// Maximum number of versions of a crate in a project. Every client reads the lines of all versions.
const MAX_VERSIONS: u64 = 2_000;

/// Returns whether clients have to send credentials with every request.
///
/// # Errors
/// Returns `Forbidden` if the packages of the project are disabled.
pub fn requires_credentials(access: &ProjectAccess) -> Result<bool> {
    check_access(access)?;
    let project = &access.project;
    let is_open = project.package_registry_access_level == FeatureAccess::Enabled;
    Ok(!is_open || project.visibility != Visibility::Public)
}

/// Returns the file of a crate in the index: a line for each version, oldest first.
///
/// # Errors
/// Returns `NotFound` if no crate has this path, `Forbidden` if the packages of the project are disabled, and
/// `Overloaded` if too little memory is left.
pub async fn index_file(backend: &Backend, access: &ProjectAccess, path: &str) -> Result<Download> {
    check_access(access)?;
    let not_found = || Error::not_found("Crate");
    let name = CrateName::of_index_path(path).ok_or_else(not_found)?;
    let scope = PackageScope::Project(access);
    let versions = client_lists::versions(backend, &scope, PackageType::Cargo, &name.canonical()).await?;
    let documents = client_lists::documents(backend, &access.caller, versions.iter()).await?;
    // A version that was deleted meanwhile has no document any more.
    let mut entries = versions
        .iter()
        .filter_map(|version| documents.get(&version.package_id))
        .peekable();
    let first = entries.peek().ok_or_else(not_found)?;
    // Clients try other separators too, and require the name in the path.
    let first = IndexEntry::parse(first).map_err(Error::internal)?;
    if !first.name.eq_ignore_ascii_case(name.as_str()) {
        return Err(not_found());
    }
    let size: usize = documents.values().map(|entry| entry.len() + 1).sum();
    access.caller.reserve_memory(size as u64)?;
    let mut lines = String::with_capacity(size);
    for entry in entries {
        lines.push_str(entry);
        lines.push('\n');
    }
    Ok(Download {
        content_type: "text/plain; charset=utf-8".to_owned(),
        file_name: name.as_str().to_ascii_lowercase(),
        attachment: false,
        etag: Some(hex::encode(Sha256::digest(&lines))),
        headers: Vec::new(),
        content: DownloadContent::Bytes(Bytes::from(lines)),
    })
}

/// Opens the archive of a version.
///
/// # Errors
/// Returns `NotFound` if the version does not exist, and `Forbidden` if the packages of the project are disabled.
pub async fn open(backend: &Backend, access: &ProjectAccess, name: &str, version: &str) -> Result<Download> {
    check_access(access)?;
    let (name, version) = parse(name, version)?;
    let (scope, lookup_name) = (PackageScope::Project(access), name.canonical());
    let file_name = file_name(&name, &version);
    let version = Some(version.as_str());
    let opened = downloads::open_by_name(
        backend,
        &scope,
        PackageType::Cargo,
        &lookup_name,
        version,
        &file_name,
    );
    opened.await.map_err(|error| match error {
        Error::NotFound(_) => version_not_found(),
        error => error,
    })
}

/// Parses the name and the version in a path. Other texts are not looked up, because a database does not accept every
/// text.
fn parse(name: &str, version: &str) -> Result<(CrateName, CrateVersion)> {
    match (CrateName::parse(name), CrateVersion::parse(version)) {
        (Ok(name), Ok(version)) => Ok((name, version)),
        _ => Err(version_not_found()),
    }
}

fn version_not_found() -> Error {
    Error::not_found("Crate version")
}

/// Returns the name of the archive of a version.
fn file_name(name: &CrateName, version: &CrateVersion) -> String {
    format!("{name}-{}.crate", version.as_str())
}
