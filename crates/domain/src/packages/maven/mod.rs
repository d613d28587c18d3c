//! Maven packages: files by their path in a repository, their checksums, and the metadata of artifacts, as Maven and Gradle
//! request them (`docs/adr/0073-compute-the-metadata-of-maven-artifacts.md`).

mod checksums;
mod metadata;

use bytes::Bytes;
use md5::Md5;
use parsers::maven::MavenPath;
use sha1::Sha1;
use sha2::{Digest, Sha256};
use storage::entities::packages::PackageType;
use storage::entities::{package_files, projects};

use super::access::check_access;
use super::client_lists::PackageScope;
use super::content;
use super::creation::{self, AddFileError, DuplicateRule, NewPackageFile, VersionRule};
use super::downloads;
use super::protection::{self, PackageChange, ProtectedName};
use crate::accounts::uploads::{UploadedFile, safe_headers};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::download::{Download, DownloadContent};
use crate::kernel::error::{Error, Result};

/// Maximum number of versions of an artifact in a project. Every client reads the list of all versions.
const MAX_VERSIONS: u64 = 10_000;
/// Maximum size of a file with metadata, in bytes. Metadata with the maximum number of versions is smaller.
const MAX_METADATA_BYTES: u64 = 4 << 20;

/// Stores a file, or compares a checksum with the stored file.
///
/// # Errors
/// Returns `InvalidParameters` if the path or the checksum is invalid, and `Rejected` if the file is empty or the package has
/// too many files or versions. Returns `Forbidden` if the packages of the project are disabled or a protection rule does not
/// allow the upload. Returns `TooLarge` if the file exceeds a limit. For a checksum, returns `NotFound` if the file does not
/// exist, and `Conflict` if the checksum is not that of the file.
pub async fn publish(
    backend: &Backend,
    access: &ProjectAccess,
    path: &str,
    upload: UploadedFile,
) -> Result<()> {
    check_access(access)?;
    let path = MavenPath::parse(path).map_err(|error| Error::parameter(format!("maven_path {error}")))?;
    match path.checksum() {
        Some(algorithm) => checksums::verify(backend, access, &path, algorithm, upload).await,
        None => add(backend, access, &path, upload).await,
    }
}

async fn add(
    backend: &Backend,
    access: &ProjectAccess,
    path: &MavenPath,
    upload: UploadedFile,
) -> Result<()> {
    if path.is_metadata() && upload.size > MAX_METADATA_BYTES {
        return Err(Error::TooLarge);
    }
    let name = ProtectedName {
        package_type: PackageType::Maven,
        name: path.name(),
        lookup_name: path.name(),
    };
    // Checked before the file is stored, and again under the lock of the project.
    protection::check(backend.database.read(), access, name, PackageChange::Push).await?;
    let content = content::store(backend, upload).await?;
    let new = NewPackageFile {
        package_type: PackageType::Maven,
        name: path.name().to_owned(),
        lookup_name: path.name().to_owned(),
        version: path.version().unwrap_or_default().to_owned(),
        status: None,
        file_name: path.file_name().to_owned(),
        requires_python: None,
        // Each deployment uploads the metadata, which would otherwise fill the package.
        on_duplicate: match path.is_metadata() {
            true => DuplicateRule::ReplaceFile,
            false => DuplicateRule::Allow,
        },
        versions: VersionRule::AtMost(MAX_VERSIONS),
        metadata: None,
        tags: Vec::new(),
    };
    let added = creation::add_file(backend, access, new, content).await;
    added.map(drop).map_err(|error| match error {
        AddFileError::Failed(error) => error,
        other => Error::Rejected(other.to_string().into()),
    })
}

/// Opens a file, a checksum or metadata. The metadata of an artifact lists the stored versions.
///
/// # Errors
/// Returns `Forbidden` if the packages of the project are disabled. Returns `NotFound` if the file does not exist;
/// `Unauthorized` in place of it for a client without credentials, unless the path of the request contains the project.
pub async fn open(backend: &Backend, scope: &PackageScope<'_>, path: &str) -> Result<Download> {
    // Other paths are not looked up, because a database does not accept every text.
    let path = MavenPath::parse(path).map_err(|_| scope.not_found())?;
    let opened = match metadata::of_artifact(backend, scope, &path).await? {
        Some(document) => Ok(open_document(&path, document)),
        None => open_stored(backend, scope, &path).await,
    };
    opened.map_err(|error| match error {
        Error::NotFound(_) => scope.not_found(),
        error => error,
    })
}

/// Opens computed metadata, or a checksum of it.
fn open_document(path: &MavenPath, document: String) -> Download {
    match path.checksum() {
        Some(algorithm) => small_file(
            path,
            "text/plain; charset=utf-8",
            checksums::of_bytes(algorithm, document.as_bytes()),
        ),
        None => small_file(path, "application/octet-stream", document),
    }
}

/// Opens the newest file with a path, or a checksum of it.
async fn open_stored(backend: &Backend, scope: &PackageScope<'_>, path: &MavenPath) -> Result<Download> {
    let query = downloads::files_by_name(
        scope,
        PackageType::Maven,
        path.name(),
        Some(path.version().unwrap_or_default()),
        path.file_name(),
    )?;
    match path.checksum() {
        Some(algorithm) => {
            let file = downloads::find(backend, query).await?;
            let checksum = checksums::of_file(algorithm, &file).ok_or_else(|| scope.not_found())?;
            Ok(small_file(path, "text/plain; charset=utf-8", checksum.to_owned()))
        }
        None => {
            let (file, mut download) = downloads::open(backend, query).await?;
            download.headers.extend(checksum_headers(&file));
            Ok(download)
        }
    }
}

/// Returns the checksums that Maven reads from the headers of a file, so that it requests no further file.
fn checksum_headers(file: &package_files::Model) -> [(&'static str, String); 2] {
    [
        ("X-Checksum-MD5", file.md5.clone()),
        ("X-Checksum-SHA1", file.sha1.clone()),
    ]
}

/// Returns a text as the file of a path.
fn small_file(path: &MavenPath, content_type: &str, text: String) -> Download {
    let path = path.to_string();
    let file_name = path.rsplit_once('/').map_or(path.as_str(), |(_, name)| name);
    let sha256 = hex::encode(Sha256::digest(&text));
    let mut headers = safe_headers();
    headers.extend([
        ("X-Checksum-MD5", hex::encode(Md5::digest(&text))),
        ("X-Checksum-SHA1", hex::encode(Sha1::digest(&text))),
        ("X-Checksum-SHA256", sha256.clone()),
    ]);
    Download {
        content_type: content_type.to_owned(),
        file_name: file_name.to_owned(),
        attachment: true,
        etag: Some(sha256),
        headers,
        content: DownloadContent::Bytes(Bytes::from(text)),
    }
}

/// Returns the scope of a request to the whole instance: the project whose full path is the name of the package. Other projects
/// could otherwise publish files that clients receive in place of those of the project.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn instance_scope<'a>(
    backend: &Backend,
    caller: &'a Caller,
    path: &str,
) -> Result<PackageScope<'a>> {
    let found = match MavenPath::parse(path) {
        Ok(path) => projects::by_full_path(backend.database.read(), path.name()).await?,
        Err(_) => None,
    };
    // No project has the ID 0.
    let (project_id, namespace_id) = found.map_or((0, 0), |(project, namespace)| (project.id, namespace.id));
    Ok(PackageScope::NamedProject {
        caller,
        project_id,
        namespace_id,
    })
}
