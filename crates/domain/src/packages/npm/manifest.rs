//! The stored document about a version.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::kernel::error::{Error, Result};

/// The document about a version, in `package_metadata`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredManifest {
    /// SHA-1 digest of the archive in hexadecimal digits.
    pub shasum: String,
    /// SHA-512 digest of the archive, as subresource integrity.
    pub integrity: String,
    /// Deprecation message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<String>,
    /// Attributes of the uploaded manifest.
    pub manifest: Map<String, Value>,
}

impl StoredManifest {
    /// Parses a stored document.
    ///
    /// # Errors
    /// Returns an internal error if the document is invalid.
    pub(super) fn parse(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(Error::internal)
    }

    /// Returns the document as it is stored.
    ///
    /// # Errors
    /// Returns an internal error if the document cannot be serialized.
    pub(super) fn to_text(&self) -> Result<String> {
        serde_json::to_string(self).map_err(Error::internal)
    }
}
