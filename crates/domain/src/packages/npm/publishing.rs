//! Uploads of npm: new versions, and documents that change deprecations.
//!
//! The body is a file. The archive in it is decoded into a second file, so the memory of an upload does not depend on
//! the size of the archive.

use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parsers::npm::{DocumentError, NpmDocument, NpmName, Publication, read_document};
use sha2::{Digest, Sha512};
use storage::entities::packages::PackageType;

use super::manifest::StoredManifest;
use super::{MAX_VERSIONS, deprecation, parse_name, protected};
use crate::accounts::uploads::UploadedFile;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::packages::access::check_access;
use crate::packages::content::{self, StoredContent};
use crate::packages::creation::{self, AddFileError, DuplicateRule, NewPackageFile, VersionRule};
use crate::packages::protection::{self, PackageChange};

/// Versions that an upload changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NpmChange {
    /// The name of the package.
    pub name: String,
    /// The versions that were added, or whose deprecation changed.
    pub versions: Vec<String>,
}

/// Processes a document of npm: adds a version, or changes the deprecation of versions.
///
/// # Errors
/// Returns `InvalidParameters` if the name or the document is invalid, or the package has too many versions or tags.
/// Returns `Forbidden` if the version exists already, the packages of the project are disabled, or a protection rule
/// does not allow the change. Returns `NotFound` if the package to deprecate does not exist, and `TooLarge` if the
/// archive exceeds the maximum size of a package file.
pub async fn receive(
    backend: &Backend,
    access: &ProjectAccess,
    name: &str,
    body: UploadedFile,
) -> Result<NpmChange> {
    check_access(access)?;
    let name = parse_name(name)?;
    // Checked before the document is read, and again under the lock of the project.
    protection::check(
        backend.database.read(),
        access,
        protected(&name),
        PackageChange::Push,
    )
    .await?;
    let received = read(backend, &access.caller, body).await?;
    match received.document {
        NpmDocument::Publish(publication) => {
            check_name(&name, &publication.name)?;
            publish(backend, access, *publication, received.archive).await
        }
        NpmDocument::Deprecate { name: sent, changes } => {
            check_name(&name, &sent)?;
            deprecation::change(backend, access, &name, changes).await
        }
    }
}

fn check_name(expected: &NpmName, sent: &NpmName) -> Result<()> {
    match expected == sent {
        true => Ok(()),
        false => Err(Error::parameter("name of the document differs from the path")),
    }
}

/// A parsed body.
struct ReceivedDocument {
    document: NpmDocument,
    archive: ReceivedArchive,
}

/// The decoded archive of a document; empty if the document has none.
struct ReceivedArchive {
    file: File,
    size: u64,
    integrity: String,
}

async fn read(backend: &Backend, caller: &Caller, body: UploadedFile) -> Result<ReceivedDocument> {
    let spool = backend.objects.spool().map_err(Error::internal)?;
    let slot = backend.budgets.parser().await?;
    let (body, caller) = (body.file.into_std().await, caller.clone());
    let parse = move || {
        let _slot = slot;
        parse(body, spool, &caller)
    };
    let read = tokio::task::spawn_blocking(parse).await;
    read.map_err(Error::internal)?
}

fn parse(mut body: File, spool: File, caller: &Caller) -> Result<ReceivedDocument> {
    let mut output = HashingWriter {
        file: BufWriter::new(spool),
        size: 0,
        digest: Sha512::new(),
    };
    let reserve = |bytes| caller.reserve_memory(bytes);
    let document = read_document(&mut body, &mut output, &reserve).map_err(|error| match error {
        DocumentError::Invalid(text) => Error::parameter(text),
        DocumentError::Memory(error) => error,
        DocumentError::Io(error) => Error::internal(error),
    })?;
    let HashingWriter { file, size, digest } = output;
    let mut file = file
        .into_inner()
        .map_err(|error| Error::internal(error.into_error()))?;
    file.rewind().map_err(Error::internal)?;
    let integrity = format!("sha512-{}", STANDARD.encode(digest.finalize()));
    Ok(ReceivedDocument {
        document,
        archive: ReceivedArchive {
            file,
            size,
            integrity,
        },
    })
}

/// Writer that computes the SHA-512 digest.
struct HashingWriter {
    file: BufWriter<File>,
    size: u64,
    digest: Sha512,
}

impl Write for HashingWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_all(bytes)?;
        self.digest.update(bytes);
        self.size += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

async fn publish(
    backend: &Backend,
    access: &ProjectAccess,
    publication: Publication,
    archive: ReceivedArchive,
) -> Result<NpmChange> {
    check_integrity(&publication, &archive)?;
    let file_name = publication.name.file_name(&publication.version);
    let upload = UploadedFile {
        file_name: file_name.clone(),
        size: archive.size,
        file: tokio::fs::File::from_std(archive.file),
    };
    let content = content::store(backend, upload).await?;
    if let Err(error) = check_shasum(&publication, &content) {
        content::discard(backend, content).await;
        return Err(error);
    }
    let metadata = StoredManifest {
        shasum: content.sha1.clone(),
        integrity: archive.integrity,
        deprecated: publication.deprecated,
        manifest: publication.manifest,
    };
    let (name, version) = (
        publication.name.to_string(),
        publication.version.as_str().to_owned(),
    );
    let new = NewPackageFile {
        package_type: PackageType::Npm,
        name: name.clone(),
        lookup_name: name.clone(),
        version: version.clone(),
        status: None,
        file_name,
        requires_python: None,
        on_duplicate: DuplicateRule::RefusePackage,
        versions: VersionRule::AtMost(MAX_VERSIONS),
        metadata: Some(metadata.to_text()?),
        tags: publication.tags.iter().map(ToString::to_string).collect(),
    };
    let added = creation::add_file(backend, access, new, content).await;
    added.map_err(|error| match error {
        AddFileError::PackageExists | AddFileError::FileExists => {
            Error::forbidden_because("Package already exists.")
        }
        AddFileError::Failed(error) => error,
        error @ (AddFileError::TooManyVersions(_) | AddFileError::TooManyTags(_)) => {
            Error::parameter(error.to_string())
        }
        error @ (AddFileError::TooManyFiles(_) | AddFileError::SimilarName(_)) => {
            Error::Rejected(error.to_string().into())
        }
    })?;
    Ok(NpmChange {
        name,
        versions: vec![version],
    })
}

/// Checks the SHA-512 digest in the manifest. Other algorithms are not compared.
fn check_integrity(publication: &Publication, archive: &ReceivedArchive) -> Result<()> {
    let sent = publication.archive.integrity.as_deref().unwrap_or_default();
    let mut compared = sent
        .split_ascii_whitespace()
        .filter(|digest| digest.starts_with("sha512-"));
    match compared.all(|digest| digest == archive.integrity) {
        true => Ok(()),
        false => Err(Error::parameter(
            "dist.integrity is not the digest of the attachment",
        )),
    }
}

fn check_shasum(publication: &Publication, content: &StoredContent) -> Result<()> {
    match &publication.archive.shasum {
        Some(sent) if !sent.eq_ignore_ascii_case(&content.sha1) => Err(Error::parameter(
            "dist.shasum is not the digest of the attachment",
        )),
        _ => Ok(()),
    }
}
