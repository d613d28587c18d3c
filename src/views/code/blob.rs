//! Blobs.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use contract::{Blob, FileEncoding};

/// Returns a blob with its content in Base64.
#[must_use]
pub fn blob(blob: &git::Blob) -> Blob {
    Blob {
        size: i64::try_from(blob.size).unwrap_or(i64::MAX),
        encoding: FileEncoding::Base64,
        content: BASE64_STANDARD.encode(&blob.data),
        sha: blob.id.to_string(),
    }
}
