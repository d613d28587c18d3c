//! Merges merge requests that wait for a successful pipeline.

use serde::{Deserialize, Serialize};
use storage::jobs::{Failure, Job};

use crate::kernel::Backend;
use crate::review::merge_requests;

/// Merges a merge request that waits for its pipeline, if the pipeline has succeeded.
#[derive(Debug, Serialize, Deserialize)]
pub struct MergeWaiting {
    /// The merge request.
    pub merge_request_id: i64,
}

impl Job for MergeWaiting {
    const KIND: &'static str = "merge_waiting";

    fn dedup_key(&self) -> Option<String> {
        Some(self.merge_request_id.to_string())
    }
}

/// Runs the job. A merge request that does not wait any more, or waits for another pipeline, is skipped.
///
/// # Errors
/// Returns an error if Git or the database fails; the job is then retried.
pub async fn run(backend: Backend, job: MergeWaiting) -> Result<(), Failure> {
    Ok(merge_requests::merge_waiting(&backend, job.merge_request_id).await?)
}
