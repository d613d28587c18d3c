//! Uploads of versions.
//!
//! The body is a file. The archive in it is checked and then stored, so the memory of an upload does not depend on the
//! size of the archive.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};

use parsers::cargo::{CrateArchiveError, Publication, PublicationError, check_archive, read_publication};
use storage::entities::packages::PackageType;

use super::{MAX_VERSIONS, file_name};
use crate::accounts::uploads::UploadedFile;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::kernel::settings::PACKAGE_FILE_SIZE;
use crate::packages::access::check_access;
use crate::packages::content;
use crate::packages::creation::{self, AddFileError, DuplicateRule, NewPackageFile, VersionRule};
use crate::packages::protection::{self, PackageChange, ProtectedName};

/// Adds a version.
///
/// # Errors
/// Returns `InvalidParameters` if the body is invalid, and `Conflict` if the version, or a crate with a similar name,
/// exists. Returns `Forbidden` if the packages of the project are disabled or a protection rule does not allow the
/// upload. Returns `TooLarge` if the archive exceeds the maximum size of a package file, and `Rejected` if the crate
/// has [`MAX_VERSIONS`] versions.
pub async fn publish(backend: &Backend, access: &ProjectAccess, body: UploadedFile) -> Result<()> {
    check_access(access)?;
    let max_bytes = backend.instance.max_package_file_bytes;
    let slot = backend.budgets.parser().await?;
    let (file, size, caller) = (body.file.into_std().await, body.size, access.caller.clone());
    let read = move || {
        let _slot = slot;
        read(file, size, &caller, max_bytes)
    };
    let read = tokio::task::spawn_blocking(read).await;
    let (publication, file) = read.map_err(Error::internal)??;
    let (name, version) = (publication.name, publication.version);
    let lookup_name = name.canonical();
    let protected = ProtectedName {
        package_type: PackageType::Cargo,
        name: name.as_str(),
        lookup_name: &lookup_name,
    };
    // Checked before the archive is stored, and again under the lock of the project.
    protection::check(backend.database.read(), access, protected, PackageChange::Push).await?;
    let archive = UploadedFile {
        file_name: file_name(&name, &version),
        size: publication.archive_size,
        file: tokio::fs::File::from_std(file),
    };
    let content = content::store(backend, archive).await?;
    let mut entry = publication.entry;
    entry.cksum.clone_from(&content.sha256);
    let metadata = match entry.to_line() {
        Ok(line) => line,
        Err(error) => {
            content::discard(backend, content).await;
            return Err(Error::internal(error));
        }
    };
    let new = NewPackageFile {
        package_type: PackageType::Cargo,
        name: name.to_string(),
        lookup_name,
        version: version.as_str().to_owned(),
        status: None,
        file_name: file_name(&name, &version),
        requires_python: None,
        on_duplicate: DuplicateRule::RefusePackage,
        versions: VersionRule::Crate(MAX_VERSIONS),
        metadata: Some(metadata),
        tags: Vec::new(),
    };
    let added = creation::add_file(backend, access, new, content).await;
    added.map(drop).map_err(|error| match error {
        AddFileError::PackageExists | AddFileError::FileExists => {
            Error::Conflict(format!("version {} of the crate {name} already exists", version.as_str()).into())
        }
        AddFileError::SimilarName(other) => Error::Conflict(
            format!("the project has the crate {other}, whose name differs only in case, `-` or `_`").into(),
        ),
        AddFileError::Failed(error) => error,
        error @ (AddFileError::TooManyFiles(_)
        | AddFileError::TooManyVersions(_)
        | AddFileError::TooManyTags(_)) => Error::Rejected(error.to_string().into()),
    })
}

/// Parses and checks a body. Returns the file at the start of the archive.
fn read(file: File, size: u64, caller: &Caller, max_bytes: u64) -> Result<(Publication, File)> {
    let reserve = |bytes| caller.reserve_memory(bytes);
    let mut reader = BufReader::new(file);
    let publication = read_publication(&mut reader, size, &reserve).map_err(|error| match error {
        PublicationError::Invalid(text) => Error::parameter(text),
        PublicationError::Memory(error) => error,
        PublicationError::Io(error) => Error::internal(error),
    })?;
    if publication.archive_size > max_bytes {
        return Err(Error::TooLarge.because_of(PACKAGE_FILE_SIZE));
    }
    let archive = reader.by_ref().take(publication.archive_size);
    check_archive(archive, &publication.name, &publication.version).map_err(|error| match error {
        CrateArchiveError::Invalid(text) => Error::parameter(text),
        CrateArchiveError::Io(error) => Error::internal(error),
    })?;
    let start = SeekFrom::Start(publication.archive_start);
    reader.seek(start).map_err(Error::internal)?;
    // The buffer is empty after the seek.
    Ok((publication, reader.into_inner()))
}
