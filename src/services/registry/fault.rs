//! Why the registry refuses, in the terms of its protocol.

use std::borrow::Cow;

use sea_orm::DbErr;

use crate::error::Error;
use crate::integrations::object_storage;

/// What kind of refusal it is; the words are those of OCI Distribution 1.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// A blob is not in the repository.
    BlobUnknown,
    /// What was sent of a blob cannot be taken.
    BlobUploadInvalid,
    /// There is no such upload (any more).
    BlobUploadUnknown,
    /// What came is not what the digest says, or the digest is none.
    DigestInvalid,
    /// A manifest names what the repository does not have.
    ManifestBlobUnknown,
    /// A manifest makes no sense.
    ManifestInvalid,
    /// A manifest is not in the repository.
    ManifestUnknown,
    /// A name cannot be one of a repository or a tag.
    NameInvalid,
    /// There is no such repository, as far as the caller may know.
    NameUnknown,
    /// How much of a list is asked for makes no sense.
    PaginationNumberInvalid,
    /// It is larger than it may be.
    SizeInvalid,
    /// Credentials are needed.
    Unauthorized,
    /// The caller may not do this.
    Denied,
    /// Something else needs what is to go.
    InUse,
    /// The server does not do this.
    Unsupported,
    /// Too much is going on.
    TooManyRequests,
}

/// Why the registry refuses.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// By the protocol, with what to tell the caller and, where it helps, which thing it is about.
    #[error("{text}")]
    Protocol {
        /// What kind of refusal it is.
        code: Code,
        /// What the caller is told.
        text: Cow<'static, str>,
        /// The digest or name it is about.
        detail: Option<String>,
    },
    /// Another part of the blob is awaited: the one that begins after this many bytes.
    #[error("the chunk does not start where the previous chunk ended")]
    OutOfOrder(u64),
    /// By the rules that hold everywhere.
    #[error(transparent)]
    Rule(#[from] Error),
}

impl Fault {
    /// A refusal with a text for the caller.
    pub fn new(code: Code, text: impl Into<Cow<'static, str>>) -> Self {
        let text = text.into();
        Self::Protocol {
            code,
            text,
            detail: None,
        }
    }

    /// A refusal about one thing.
    pub(super) fn about(code: Code, text: &'static str, what: impl ToString) -> Self {
        let (text, detail) = (text.into(), Some(what.to_string()));
        Self::Protocol { code, text, detail }
    }
}

impl From<DbErr> for Fault {
    fn from(error: DbErr) -> Self {
        Self::Rule(error.into())
    }
}

impl From<object_storage::Error> for Fault {
    fn from(error: object_storage::Error) -> Self {
        Self::Rule(error.into())
    }
}
