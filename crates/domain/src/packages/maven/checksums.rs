//! Checksums of files, which clients upload and download as files of their own. They are computed when the file is uploaded.

use md5::Md5;
use parsers::maven::{MavenChecksum, MavenPath};
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};
use storage::entities::package_files;
use storage::entities::packages::PackageType;
use tokio::io::AsyncReadExt;

use crate::accounts::uploads::UploadedFile;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::packages::client_lists::PackageScope;
use crate::packages::downloads;

/// Maximum size of an uploaded file with a checksum, in bytes. Some programs append the name of the file to the checksum.
const MAX_BYTES: u64 = 1024;

/// Returns a checksum of a stored file.
pub(super) fn of_file(algorithm: MavenChecksum, file: &package_files::Model) -> Option<&str> {
    match algorithm {
        MavenChecksum::Md5 => Some(&file.md5),
        MavenChecksum::Sha1 => Some(&file.sha1),
        MavenChecksum::Sha256 => Some(&file.sha256),
        MavenChecksum::Sha512 => file.sha512.as_deref(),
    }
}

/// Returns a checksum of bytes.
pub(super) fn of_bytes(algorithm: MavenChecksum, bytes: &[u8]) -> String {
    match algorithm {
        MavenChecksum::Md5 => hex::encode(Md5::digest(bytes)),
        MavenChecksum::Sha1 => hex::encode(Sha1::digest(bytes)),
        MavenChecksum::Sha256 => hex::encode(Sha256::digest(bytes)),
        MavenChecksum::Sha512 => hex::encode(Sha512::digest(bytes)),
    }
}

/// Compares an uploaded checksum with the newest file. The checksum is not stored.
pub(super) async fn verify(
    backend: &Backend,
    access: &ProjectAccess,
    path: &MavenPath,
    algorithm: MavenChecksum,
    upload: UploadedFile,
) -> Result<()> {
    let sent = read(algorithm, upload).await?;
    let query = downloads::files_by_name(
        &PackageScope::Project(access),
        PackageType::Maven,
        path.name(),
        Some(path.version().unwrap_or_default()),
        path.file_name(),
    )?;
    let file = downloads::find(backend, query).await?;
    // Concurrent deployments of two versions replace the metadata of each other. Clients do not receive the uploaded metadata.
    let is_computed = path.version().is_none();
    let is_equal = of_file(algorithm, &file).is_some_and(|stored| sent.eq_ignore_ascii_case(stored));
    match is_equal || is_computed {
        true => Ok(()),
        false => Err(Error::Conflict(
            format!(
                "the {} is not that of the stored file; upload the file again",
                algorithm.extension()
            )
            .into(),
        )),
    }
}

/// Reads the digits of a checksum.
async fn read(algorithm: MavenChecksum, upload: UploadedFile) -> Result<String> {
    let mut bytes = Vec::new();
    let mut file = upload.file.take(MAX_BYTES + 1);
    file.read_to_end(&mut bytes).await.map_err(Error::internal)?;
    let text = match bytes.len() as u64 <= MAX_BYTES {
        true => String::from_utf8(bytes).unwrap_or_default(),
        false => String::new(),
    };
    let digits = text.split_whitespace().next().unwrap_or_default();
    let is_valid = digits.len() == algorithm.digits() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    match is_valid {
        true => Ok(digits.to_owned()),
        false => Err(Error::parameter(format!(
            "the body must contain {} hexadecimal digits",
            algorithm.digits()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_have_the_digits_of_their_algorithm() {
        for algorithm in MavenChecksum::ALL {
            assert_eq!(of_bytes(algorithm, b"").len(), algorithm.digits());
        }
        assert_eq!(
            of_bytes(MavenChecksum::Md5, b"abc"),
            "900150983cd24fb0d6963f7d28e17f72"
        );
    }
}
