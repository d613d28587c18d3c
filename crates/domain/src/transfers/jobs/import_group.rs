//! Import of a group from an archive.

use serde::{Deserialize, Serialize};
use storage::jobs::Job;

/// Executes an import.
#[derive(Debug, Serialize, Deserialize)]
pub struct ImportGroup {
    /// The import.
    pub import_id: i64,
}

impl Job for ImportGroup {
    const KIND: &'static str = "import_group";

    fn dedup_key(&self) -> Option<String> {
        Some(self.import_id.to_string())
    }
}
