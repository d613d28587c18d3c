//! Errors of reports.

use std::io;

/// Error of a report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The document is not JSON or exceeds a limit; contains a text for the client.
    #[error("{0}")]
    Invalid(String),
    /// A part of the document is invalid.
    #[error("{name} {text}")]
    Attribute {
        /// The attribute at the root of the document, or `base`.
        name: &'static str,
        /// Text for the client, with the position.
        text: String,
    },
    /// The document cannot be read, or the findings cannot be written.
    #[error(transparent)]
    Io(#[from] io::Error),
}
