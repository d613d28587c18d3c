//! npm packages: uploads, the versions of a package, tags and deprecations, as npm requests them.

mod deprecation;
mod manifest;
mod publishing;
pub mod tags;
mod versions;

use parsers::npm::NpmName;
use storage::entities::namespaces;
use storage::entities::packages::PackageType;

use super::client_lists::PackageScope;
use super::downloads;
use super::protection::ProtectedName;
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::download::Download;
use crate::kernel::error::{Error, Result};

pub use manifest::StoredManifest;
pub use publishing::{NpmChange, receive};
pub use versions::{NpmPackageDetail, NpmVersionDetail, get};

/// Maximum number of versions of a package in a project. The response with all versions is read by every client.
const MAX_VERSIONS: u64 = 2_000;

/// Returns a name for the protection rules.
fn protected(name: &NpmName) -> ProtectedName<'_> {
    ProtectedName {
        package_type: PackageType::Npm,
        name: name.as_str(),
        lookup_name: name.as_str(),
    }
}

/// Parses the name of a package in a path.
///
/// # Errors
/// Returns `InvalidParameters` if it is invalid.
fn parse_name(name: &str) -> Result<NpmName> {
    NpmName::parse(name).map_err(|error| Error::parameter(format!("package_name {error}")))
}

/// Returns the scope of a request to the whole instance: the projects in the namespace that the scope of the name
/// names. The scope contains no projects if the name has no scope, or if no top-level namespace has its path.
///
/// # Errors
/// Returns `InvalidParameters` if the name is invalid.
pub async fn instance_scope<'a>(
    backend: &Backend,
    caller: &'a Caller,
    name: &str,
) -> Result<PackageScope<'a>> {
    let name = parse_name(name)?;
    let namespace = match name.scope() {
        Some(path) => namespaces::by_full_path(backend.database.read(), path).await?,
        None => None,
    };
    // No namespace has this ID.
    let group_id = namespace.map_or(0, |namespace| namespace.id);
    Ok(PackageScope::Group { caller, group_id })
}

/// Opens the archive of a version.
///
/// # Errors
/// Returns `InvalidParameters` if the name is invalid, and `Forbidden` if the packages of the project are disabled.
/// Returns `NotFound` if the archive does not exist; `Unauthorized` in place of it for a client without credentials in
/// a group.
pub async fn open(
    backend: &Backend,
    scope: &PackageScope<'_>,
    name: &str,
    file_name: &str,
) -> Result<Download> {
    let name = parse_name(name)?;
    let opened = downloads::open_by_name(backend, scope, PackageType::Npm, name.as_str(), None, file_name);
    opened.await.map_err(|error| match error {
        Error::NotFound(_) => scope.not_found(),
        error => error,
    })
}
