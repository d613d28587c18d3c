//! Export of a group to an archive.

use serde::{Deserialize, Serialize};
use storage::jobs::Job;

/// Exports a group to an archive.
#[derive(Debug, Serialize, Deserialize)]
pub struct ExportGroup {
    /// The group.
    pub group_id: i64,
    /// The user who requested it.
    pub user_id: i64,
}

impl Job for ExportGroup {
    const KIND: &'static str = "export_group";
    const MAX_ATTEMPTS: u16 = 5;

    fn dedup_key(&self) -> Option<String> {
        // The content of an archive depends on the user it is for.
        Some(format!("{}:{}", self.group_id, self.user_id))
    }
}
