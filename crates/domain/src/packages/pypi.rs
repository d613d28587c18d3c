//! Python packages: uploads, the index of packages, and the files of a package, as `twine` and `pip` request them.

use parsers::pypi::{is_digest, is_file_name, is_name, is_version, normalize};
use storage::entities::packages::PackageType;

use super::access::check_access;
use super::client_lists::{self, ListedFile, PackageScope};
use super::content::{self, StoredContent};
use super::creation::{self, AddFileError, DuplicateRule, NewPackageFile, VersionRule};
use super::downloads;
use super::protection::{self, PackageChange, ProtectedName};
use crate::accounts::uploads::UploadedFile;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::download::Download;
use crate::kernel::error::{Error, Result};

/// Number of hexadecimal digits of an MD5 digest.
const MD5_DIGITS: usize = 32;
/// Number of hexadecimal digits of a SHA-256 digest.
const SHA256_DIGITS: usize = 64;

/// Attributes of an upload.
#[derive(Debug, Clone)]
pub struct PythonUpload {
    /// The name of the package.
    pub name: String,
    /// The version.
    pub version: String,
    /// The versions of Python that the file supports.
    pub requires_python: Option<String>,
    /// The MD5 digest of the file.
    pub md5: Option<String>,
    /// The SHA-256 digest of the file.
    pub sha256: Option<String>,
}

/// A package with its files.
#[derive(Debug, Clone)]
pub struct PythonPackageDetail {
    /// The normalized name.
    pub name: String,
    /// The files, oldest first.
    pub files: Vec<ListedFile>,
}

/// Adds a file to a version of a package.
///
/// # Errors
/// Returns `InvalidParameters` if an attribute is invalid, or a digest is not that of the file. Returns `Rejected` if a
/// version of the package has a file with this name, and `Forbidden` if the packages of the project are disabled or a
/// protection rule does not allow the upload.
pub async fn publish(
    backend: &Backend,
    access: &ProjectAccess,
    upload: PythonUpload,
    file: UploadedFile,
) -> Result<()> {
    check_access(access)?;
    check_upload(&upload, &file.file_name)?;
    let lookup_name = normalize(&upload.name);
    let name = ProtectedName {
        package_type: PackageType::Pypi,
        name: &upload.name,
        lookup_name: &lookup_name,
    };
    // Checked before the file is stored, and again under the lock of the project.
    protection::check(backend.database.read(), access, name, PackageChange::Push).await?;
    let file_name = file.file_name.clone();
    let content = content::store(backend, file).await?;
    if let Err(error) = check_digests(&upload, &content) {
        content::discard(backend, content).await;
        return Err(error);
    }
    let new = NewPackageFile {
        package_type: PackageType::Pypi,
        lookup_name,
        name: upload.name,
        version: upload.version,
        status: None,
        file_name,
        requires_python: upload.requires_python.filter(|text| !text.is_empty()),
        on_duplicate: DuplicateRule::RefuseFile,
        versions: VersionRule::Any,
        metadata: None,
        tags: Vec::new(),
    };
    let added = creation::add_file(backend, access, new, content).await;
    added.map(drop).map_err(|error| match error {
        // Old versions of twine search for a part of this text.
        AddFileError::FileExists => {
            Error::Rejected("400 Bad request - Validation failed: File name has already been taken".into())
        }
        AddFileError::Failed(error) => error,
        error => Error::Rejected(error.to_string().into()),
    })
}

fn check_upload(upload: &PythonUpload, file_name: &str) -> Result<()> {
    let is_text = |text: &str| !text.contains(|c: char| c.is_control());
    let is_absent_or =
        |text: &Option<String>, digits| text.as_ref().is_none_or(|text| is_digest(text, digits));
    let checks = [
        ("name", is_name(&upload.name)),
        ("version", is_version(&upload.version)),
        (
            "requires_python",
            upload.requires_python.as_deref().is_none_or(is_text),
        ),
        ("md5_digest", is_absent_or(&upload.md5, MD5_DIGITS)),
        ("sha256_digest", is_absent_or(&upload.sha256, SHA256_DIGITS)),
        ("file name of content", is_file_name(file_name, &upload.name)),
    ];
    let invalid = checks.into_iter().filter(|(_, is_valid)| !is_valid);
    let faults: Vec<String> = invalid.map(|(name, _)| format!("{name} is invalid")).collect();
    match faults.is_empty() {
        true => Ok(()),
        false => Err(Error::InvalidParameters(faults.into())),
    }
}

fn check_digests(upload: &PythonUpload, content: &StoredContent) -> Result<()> {
    for (name, sent, computed) in [
        ("md5_digest", &upload.md5, &content.md5),
        ("sha256_digest", &upload.sha256, &content.sha256),
    ] {
        if sent
            .as_ref()
            .is_some_and(|sent| !sent.eq_ignore_ascii_case(computed))
        {
            return Err(Error::parameter(format!("{name} is not the digest of the file")));
        }
    }
    Ok(())
}

/// Returns the normalized names of all packages, in alphabetical order.
///
/// # Errors
/// Returns `Forbidden` if the packages of the project are disabled, and `Overloaded` if too little memory is left.
pub async fn names(backend: &Backend, scope: &PackageScope<'_>) -> Result<Vec<String>> {
    client_lists::names(backend, scope, PackageType::Pypi).await
}

/// Returns a package with its files.
///
/// # Errors
/// Returns `Forbidden` if the packages of the project are disabled. Returns `NotFound` if the package does not exist;
/// `Unauthorized` in place of it for a client without credentials in a group. Returns `Overloaded` if too little memory
/// is left.
pub async fn get(backend: &Backend, scope: &PackageScope<'_>, name: &str) -> Result<PythonPackageDetail> {
    // Other names are not looked up, because a database does not accept every text.
    if !is_name(name) {
        return Err(scope.not_found());
    }
    let name = normalize(name);
    let versions = client_lists::by_name(backend, scope, PackageType::Pypi, &name).await?;
    if versions.is_empty() {
        return Err(scope.not_found());
    }
    let ids: Vec<i64> = versions.iter().map(|version| version.id).collect();
    let files = client_lists::files_of(backend, scope.caller(), &ids).await?;
    Ok(PythonPackageDetail { name, files })
}

/// Opens a file by its digest and name.
///
/// # Errors
/// Returns `Forbidden` if the packages of the project are disabled. Returns `NotFound` if the file does not exist;
/// `Unauthorized` in place of it for a client without credentials in a group.
pub async fn open(
    backend: &Backend,
    scope: &PackageScope<'_>,
    sha256: &str,
    file_name: &str,
) -> Result<Download> {
    if !is_digest(sha256, SHA256_DIGITS) || file_name.contains('\0') {
        return Err(scope.not_found());
    }
    let sha256 = sha256.to_ascii_lowercase();
    let opened = downloads::open_by_digest(backend, scope, PackageType::Pypi, &sha256, file_name);
    opened.await.map_err(|error| match error {
        Error::NotFound(_) => scope.not_found(),
        error => error,
    })
}
