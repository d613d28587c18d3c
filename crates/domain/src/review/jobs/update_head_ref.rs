//! Update of the head ref of a merge request in the target repository.

use serde::{Deserialize, Serialize};
use storage::jobs::Job;

/// Fetches the head of a merge request into the repository of its target and updates the ref that clients
/// fetch.
#[derive(Debug, Serialize, Deserialize)]
pub struct UpdateHeadRef {
    /// The merge request.
    pub merge_request_id: i64,
}

impl Job for UpdateHeadRef {
    const KIND: &'static str = "keep_merge_request";
    const MAX_ATTEMPTS: u16 = 5;

    fn dedup_key(&self) -> Option<String> {
        Some(self.merge_request_id.to_string())
    }
}
