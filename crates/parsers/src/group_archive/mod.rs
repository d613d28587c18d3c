//! Archives of groups: gzip-compressed tar files in a fixed layout.
//!
//! No entry is unpacked to a path. Names outside of the layout are rejected.

mod entry;
mod error;
pub mod layout;
pub mod records;

use std::collections::HashSet;
use std::io::{self, BufRead, BufReader, Read};

use layout::{MAX_BYTES, MAX_ENTRIES};
use tar::{Archive, EntryType};

use crate::gzip_reader::GzipReader;

pub use entry::ArchiveEntry;
pub use error::ArchiveError;

/// Maximum length of a line, in bytes. A description of a million characters needs twelve bytes each if all are escaped.
const MAX_LINE_BYTES: u64 = 14 << 20;
/// Maximum length of a file that is read as a whole, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

fn invalid(text: impl Into<String>) -> ArchiveError {
    ArchiveError::Invalid(text.into())
}

/// Receives the files of an archive.
pub trait ArchiveHandler {
    /// Error of a file.
    type Error: From<ArchiveError>;

    /// Reads a file.
    ///
    /// # Errors
    /// Returns an error if the content is invalid, which ends the archive.
    fn file(&mut self, entry: ArchiveEntry, name: &str, content: &mut dyn BufRead)
    -> Result<(), Self::Error>;
}

/// Reads all files of an archive, and checks that it is complete.
///
/// # Errors
/// Returns an error if the archive is invalid, exceeds a limit or contains a file twice, and the errors of the handler.
pub fn read_archive<H: ArchiveHandler>(archive: impl BufRead, handler: &mut H) -> Result<(), H::Error> {
    let mut archive = Archive::new(GzipReader::new(archive, MAX_BYTES));
    let (mut entries, mut seen) = (0, HashSet::new());
    // Raw entries, because the library reads extension headers into memory regardless of their length.
    for entry in archive.entries().map_err(ArchiveError::from)?.raw(true) {
        let entry = entry.map_err(ArchiveError::from)?;
        entries += 1;
        if entries > MAX_ENTRIES {
            let text = format!("The archive has too many files and directories (maximum is {MAX_ENTRIES})");
            return Err(invalid(text).into());
        }
        let name = String::from_utf8(entry.header().path_bytes().into_owned())
            .map_err(|_| invalid("The archive contains a name that is not valid UTF-8"))?;
        match entry.header().entry_type() {
            EntryType::Regular => {}
            EntryType::Directory => {
                ArchiveEntry::of_directory(&name)?;
                continue;
            }
            // Extension headers contain timestamps and the like. Names in the layout are too short to need
            // them.
            EntryType::XHeader | EntryType::XGlobalHeader => continue,
            _ => {
                let text =
                    format!("The archive contains an entry that is neither a file nor a directory: {name:?}");
                return Err(invalid(text).into());
            }
        }
        let kind = ArchiveEntry::of_file(&name)?;
        if !seen.insert(entry::without_dot_prefix(&name).to_owned()) {
            return Err(invalid(format!("The archive contains {name:?} more than once")).into());
        }
        handler.file(kind, &name, &mut BufReader::new(entry))?;
    }
    let mut unpacked = archive.into_inner();
    // An archive ends with two empty blocks, of which the first was read. Reading the rest verifies the gzip
    // checksum.
    let rest = io::copy(&mut unpacked, &mut io::sink()).map_err(ArchiveError::from)?;
    if rest < 512 {
        return Err(invalid("The archive cannot be read: it is truncated").into());
    }
    Ok(())
}

/// Reads a small file.
///
/// # Errors
/// Returns an error if the file is too long or not UTF-8.
pub fn read_small_file(content: &mut dyn BufRead, name: &str) -> Result<String, ArchiveError> {
    let mut bytes = Vec::new();
    content.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(invalid(format!("{name} is too long")));
    }
    String::from_utf8(bytes).map_err(|_| invalid(format!("{name} is not valid UTF-8")))
}

/// Reads a file line by line and skips empty lines. `read` gets the number of the line, from 1, and the line without spaces
/// at its ends.
///
/// # Errors
/// Returns an error if a line is too long, and the errors of `read`.
pub fn each_line<E: From<ArchiveError>>(
    content: &mut dyn BufRead,
    name: &str,
    mut read: impl FnMut(usize, &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let (mut line, mut number) = (Vec::new(), 0);
    loop {
        line.clear();
        number += 1;
        let mut bounded = content.take(MAX_LINE_BYTES + 1);
        if bounded.read_until(b'\n', &mut line).map_err(ArchiveError::from)? == 0 {
            return Ok(());
        }
        if line.len() as u64 > MAX_LINE_BYTES {
            return Err(invalid(format!("{name}, line {number}: the line is too long")).into());
        }
        if !line.trim_ascii().is_empty() {
            read(number, line.trim_ascii())?;
        }
    }
}
