//! Archives of crates: gzip-compressed tar files with the folder `{name}-{version}`.
//!
//! Clients unpack the archive, so all entries must be files or folders below the folder of the version. No entry is unpacked
//! here.

use std::io::{self, BufRead, Read};

use tar::{Archive, EntryType};

use super::{CrateName, CrateVersion};
use crate::gzip_reader::GzipReader;

/// Maximum size of the uncompressed archive, in bytes.
pub const MAX_EXPANDED_BYTES: u64 = 1 << 30;
/// Maximum number of entries.
const MAX_ENTRIES: u32 = 50_000;
/// Maximum length of a path, in bytes.
const MAX_PATH_BYTES: u64 = 1_024;
/// Characters that Cargo does not accept in the names of files, because not all file systems support them.
const EXCLUDED_CHARACTERS: [char; 8] = ['\\', '<', '>', ':', '"', '|', '?', '*'];

/// Error of an archive.
#[derive(Debug, thiserror::Error)]
pub enum CrateArchiveError {
    /// The archive is invalid or exceeds a limit; contains a text for the client.
    #[error("{0}")]
    Invalid(String),
    /// The archive cannot be read from the disk.
    #[error(transparent)]
    Io(io::Error),
}

impl From<io::Error> for CrateArchiveError {
    /// Errors of the operating system are failures of the server; others are errors of the archive.
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(_) => Self::Io(error),
            None => Self::Invalid(format!("the archive cannot be read: {error}")),
        }
    }
}

fn invalid(text: impl Into<String>) -> CrateArchiveError {
    CrateArchiveError::Invalid(text.into())
}

/// Checks the archive of a version: it must be complete, contain only files and folders below `{name}-{version}`, and
/// contain the manifest.
///
/// # Errors
/// Returns an error if the archive is invalid or exceeds a limit.
pub fn check_archive(
    archive: impl BufRead,
    name: &CrateName,
    version: &CrateVersion,
) -> Result<(), CrateArchiveError> {
    let folder = format!("{name}-{}", version.as_str());
    let manifest = format!("{folder}/Cargo.toml");
    let mut archive = Archive::new(GzipReader::new(archive, MAX_EXPANDED_BYTES));
    let (mut count, mut has_manifest, mut long_path) = (0, false, None);
    // Raw entries, because the library reads extension headers into memory regardless of their length.
    for entry in archive.entries()?.raw(true) {
        let mut entry = entry?;
        count += 1;
        if count > MAX_ENTRIES {
            return Err(invalid(format!(
                "the archive has too many entries (maximum is {MAX_ENTRIES})"
            )));
        }
        let kind = entry.header().entry_type();
        if kind == EntryType::GNULongName {
            if long_path.is_some() {
                return Err(invalid("the archive contains a path without a file"));
            }
            long_path = Some(read_path(&mut entry)?);
            continue;
        }
        let path = match long_path.take() {
            Some(path) => path,
            None => entry.header().path_bytes().into_owned(),
        };
        let path = String::from_utf8(path)
            .map_err(|_| invalid("the archive contains a path that is not valid UTF-8"))?;
        if !matches!(kind, EntryType::Regular | EntryType::Directory) {
            let text = "the archive contains an entry that is neither a file nor a folder";
            return Err(invalid(format!("{text}: {:?}", shortened(&path))));
        }
        if !is_below(&path, &folder, kind) {
            let text =
                format!("the archive contains a path outside of {folder}, or with excluded characters");
            return Err(invalid(format!("{text}: {:?}", shortened(&path))));
        }
        has_manifest |= kind == EntryType::Regular && path == manifest;
    }
    if long_path.is_some() {
        return Err(invalid("the archive contains a path without a file"));
    }
    let mut unpacked = archive.into_inner();
    // Reading the rest verifies the checksum. The archive ends with two empty blocks, of which the first was read.
    let rest = io::copy(&mut unpacked, &mut io::sink())?;
    if rest < 512 {
        return Err(invalid("the archive cannot be read: it is truncated"));
    }
    match has_manifest {
        true => Ok(()),
        false => Err(invalid(format!("the archive does not contain {manifest}"))),
    }
}

/// Reads the path of the next entry, which is too long for a header. It ends with a NUL byte.
fn read_path(entry: &mut impl Read) -> Result<Vec<u8>, CrateArchiveError> {
    let mut path = Vec::new();
    entry.take(MAX_PATH_BYTES + 2).read_to_end(&mut path)?;
    if path.last() == Some(&0) {
        path.pop();
    }
    match path.len() as u64 <= MAX_PATH_BYTES {
        true => Ok(path),
        false => Err(invalid(format!(
            "the archive contains a path that is too long (maximum is {MAX_PATH_BYTES} bytes)"
        ))),
    }
}

/// Returns whether the path of an entry is below a folder, or the folder itself.
fn is_below(path: &str, folder: &str, kind: EntryType) -> bool {
    let path = match kind {
        EntryType::Directory => path.strip_suffix('/').unwrap_or(path),
        _ => path,
    };
    let is_plain = |name: &str| {
        !matches!(name, "" | "." | "..")
            && !name.contains(EXCLUDED_CHARACTERS)
            && !name.chars().any(char::is_control)
    };
    let mut names = path.split('/');
    let is_in_folder = names.next() == Some(folder);
    let mut depth = 0;
    let is_valid = names.inspect(|_| depth += 1).all(is_plain);
    is_in_folder && is_valid && (depth > 0 || kind == EntryType::Directory)
}

/// Returns the start of a path for an error.
fn shortened(path: &str) -> String {
    path.chars().take(200).collect()
}

#[cfg(test)]
mod tests;
