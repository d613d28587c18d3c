//! Merge of a merge request after its pipeline succeeded. `review` runs the job.

use serde::{Deserialize, Serialize};
use storage::jobs::Job;

/// Merges a merge request that waits for its pipeline, if the pipeline has succeeded.
#[derive(Debug, Serialize, Deserialize)]
pub struct AutoMerge {
    /// The merge request.
    pub merge_request_id: i64,
}

impl Job for AutoMerge {
    const KIND: &'static str = "merge_waiting";

    fn dedup_key(&self) -> Option<String> {
        Some(self.merge_request_id.to_string())
    }
}
