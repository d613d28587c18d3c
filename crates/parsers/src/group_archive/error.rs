//! Errors of archives.

use std::io;

/// Error of an archive.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The archive is invalid; contains a text for the client. It may be long, because it repeats names of the archive.
    #[error("{0}")]
    Invalid(String),
    /// The archive cannot be read from the disk.
    #[error(transparent)]
    Io(io::Error),
}

impl From<io::Error> for ArchiveError {
    /// Errors of the operating system are failures of the server; others are errors of the archive.
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(_) => Self::Io(error),
            None => Self::Invalid(format!("The archive cannot be read: {error}")),
        }
    }
}
