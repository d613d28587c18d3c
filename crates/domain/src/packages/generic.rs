//! Generic packages: any files, by the name and version of the package and the name of the file.

use storage::entities::package_files;
use storage::entities::packages::{self, PackageStatus, PackageType};

use super::access::check_access;
use super::client_lists::PackageScope;
use super::content;
use super::creation::{self, AddFileError, DuplicateRule, NewPackageFile, VersionRule};
use super::downloads;
use super::protection::{self, PackageChange, ProtectedName};
use crate::accounts::uploads::UploadedFile;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::download::Download;
use crate::kernel::error::{Error, Result};

/// A file of a generic package.
#[derive(Debug, Clone)]
pub struct GenericFile {
    /// The name of the package.
    pub package_name: String,
    /// The version of the package.
    pub version: String,
    /// The name of the file.
    pub file_name: String,
}

/// Publishes a file. A file with the same name is added to the older ones.
///
/// # Errors
/// Returns `Error::InvalidParameters` if a name or the version is invalid, and `Error::Rejected` if the file is empty or
/// the package has too many files. Returns `Error::Forbidden` if the packages of the project are disabled or a protection rule
/// does not allow the upload.
pub async fn publish(
    backend: &Backend,
    access: &ProjectAccess,
    file: GenericFile,
    status: Option<PackageStatus>,
    upload: UploadedFile,
) -> Result<(packages::Model, package_files::Model)> {
    check_access(access)?;
    check_names(&file)?;
    let name = ProtectedName {
        package_type: PackageType::Generic,
        name: &file.package_name,
        lookup_name: &file.package_name,
    };
    // Checked before the file is stored, and again under the lock of the project.
    protection::check(backend.database.read(), access, name, PackageChange::Push).await?;
    let content = content::store(backend, upload).await?;
    let new = NewPackageFile {
        package_type: PackageType::Generic,
        lookup_name: file.package_name.clone(),
        name: file.package_name,
        version: file.version,
        status,
        file_name: file.file_name,
        requires_python: None,
        on_duplicate: DuplicateRule::Allow,
        versions: VersionRule::Any,
        metadata: None,
        tags: Vec::new(),
    };
    let added = creation::add_file(backend, access, new, content).await;
    added.map_err(|error| match error {
        AddFileError::Failed(error) => error,
        other => Error::Rejected(other.to_string().into()),
    })
}

/// Opens the newest file with a name.
///
/// # Errors
/// Returns `Error::NotFound` if the file does not exist, and `Error::Forbidden` if the packages of the project are
/// disabled.
pub async fn open(backend: &Backend, access: &ProjectAccess, file: &GenericFile) -> Result<Download> {
    let scope = PackageScope::Project(access);
    downloads::open_by_name(
        backend,
        &scope,
        PackageType::Generic,
        &file.package_name,
        Some(&file.version),
        &file.file_name,
    )
    .await
}

fn check_names(file: &GenericFile) -> Result<()> {
    let checks = [
        ("package_name", is_name(&file.package_name)),
        ("package_version", is_version(&file.version)),
        ("file_name", is_file_name(&file.file_name)),
    ];
    let invalid = checks.into_iter().filter(|(_, is_valid)| !is_valid);
    let faults: Vec<String> = invalid.map(|(name, _)| format!("{name} is invalid")).collect();
    match faults.is_empty() {
        true => Ok(()),
        false => Err(Error::InvalidParameters(faults.into())),
    }
}

fn is_plain(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '.' | '_' | '-' | '+')
}

fn is_name(name: &str) -> bool {
    name.chars().all(is_plain) && name.chars().any(|character| character != '.')
}

fn is_version(version: &str) -> bool {
    is_name(version) && !version.contains("..")
}

fn is_file_name(name: &str) -> bool {
    let is_inner = |character: char| matches!(character, '~' | '@');
    let inner = |character| is_plain(character) || is_inner(character);
    name.chars().all(inner)
        && name.chars().any(|character| character != '.')
        && !name.starts_with(is_inner)
        && !name.ends_with(is_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_plain_characters_and_not_only_dots() {
        for name in ["a", "my_package", "My.Package-1+x", "..a", "0"] {
            assert!(is_name(name), "{name}");
        }
        for name in [
            "", ".", "..", "a b", "a/b", "a%2fb", "é", "a\0", "a~", "@a", "a\\b",
        ] {
            assert!(!is_name(name), "{name}");
        }
    }

    #[test]
    fn versions_have_no_two_dots_in_a_row() {
        for version in [
            "1.2",
            "v1.0.0",
            "1.2.bananas",
            "1.0+build-5",
            "d6eb32081c822ed572b70567826d9d9d",
        ] {
            assert!(is_version(version), "{version}");
        }
        for version in ["..1.2.3", "1.2.3-4/../../", "1..2", "1/2", "", "."] {
            assert!(!is_version(version), "{version}");
        }
    }

    #[test]
    fn file_names_can_contain_tilde_and_at_sign_inside() {
        for name in ["a.tar.gz", "a~b", "a@1.zip", ".hidden"] {
            assert!(is_file_name(name), "{name}");
        }
        for name in ["", "~a", "a~", "@a", "a@", "..", "a/b", "../a", "a b", "%2e%2e"] {
            assert!(!is_file_name(name), "{name}");
        }
    }
}
