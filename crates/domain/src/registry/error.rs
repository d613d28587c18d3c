//! Errors of the registry protocol.

use std::borrow::Cow;

use parsers::registry::InvalidImageName;
use sea_orm::DbErr;

use crate::integrations::object_storage;
use crate::kernel::error::Error;

/// Error codes; the names are those of OCI Distribution 1.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegistryErrorCode {
    /// The repository does not contain the blob.
    BlobUnknown,
    /// The uploaded data is invalid.
    BlobUploadInvalid,
    /// The upload does not exist or has ended.
    BlobUploadUnknown,
    /// The digest is malformed or does not match the content.
    DigestInvalid,
    /// A manifest refers to content that the repository does not contain.
    ManifestBlobUnknown,
    /// The manifest is invalid.
    ManifestInvalid,
    /// The repository does not contain the manifest.
    ManifestUnknown,
    /// The name of a repository or tag is invalid.
    NameInvalid,
    /// The repository does not exist or is not visible to the caller.
    NameUnknown,
    /// The page size is invalid.
    PaginationNumberInvalid,
    /// The content is too large.
    SizeInvalid,
    /// Authentication is required.
    Unauthorized,
    /// The caller may not do this.
    Denied,
    /// The content is still referenced.
    InUse,
    /// The operation is not supported.
    Unsupported,
    /// There are too many requests.
    TooManyRequests,
}

/// Errors of the registry.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// A protocol error.
    #[error("{text}")]
    Protocol {
        /// The error code.
        code: RegistryErrorCode,
        /// The text for the caller.
        text: Cow<'static, str>,
        /// The digest or name it refers to.
        detail: Option<String>,
    },
    /// A part starts at the wrong offset; contains the expected offset in bytes.
    #[error("the chunk does not start where the previous chunk ended")]
    OutOfOrder(u64),
    /// An error of the domain.
    #[error(transparent)]
    Rule(#[from] Error),
}

impl RegistryError {
    /// Returns the error for an upload that does not exist or has ended.
    pub(super) fn unknown_upload() -> Self {
        Self::new(
            RegistryErrorCode::BlobUploadUnknown,
            "blob upload unknown to registry",
        )
    }

    /// Creates an error with a text for the caller.
    pub fn new(code: RegistryErrorCode, text: impl Into<Cow<'static, str>>) -> Self {
        let text = text.into();
        Self::Protocol {
            code,
            text,
            detail: None,
        }
    }

    /// Creates an error about one digest or name.
    pub(super) fn with_detail(code: RegistryErrorCode, text: &'static str, what: impl ToString) -> Self {
        let (text, detail) = (text.into(), Some(what.to_string()));
        Self::Protocol { code, text, detail }
    }
}

impl From<InvalidImageName> for RegistryError {
    fn from(error: InvalidImageName) -> Self {
        Self::Protocol {
            code: RegistryErrorCode::NameInvalid,
            text: error.to_string().into(),
            detail: Some(error.escaped_name),
        }
    }
}

impl From<DbErr> for RegistryError {
    fn from(error: DbErr) -> Self {
        Self::Rule(error.into())
    }
}

impl From<object_storage::Error> for RegistryError {
    fn from(error: object_storage::Error) -> Self {
        Self::Rule(error.into())
    }
}
