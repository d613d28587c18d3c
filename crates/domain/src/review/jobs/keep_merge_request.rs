//! Updates the head ref of a merge request in the target repository.

use serde::{Deserialize, Serialize};
use storage::jobs::{Failure, Job};

use crate::kernel::Backend;
use crate::review::merge_requests;

/// Fetches the head of a merge request into the repository of its target and updates the ref that clients
/// fetch.
#[derive(Debug, Serialize, Deserialize)]
pub struct KeepMergeRequest {
    /// The merge request.
    pub merge_request_id: i64,
}

impl Job for KeepMergeRequest {
    const KIND: &'static str = "keep_merge_request";
    const MAX_ATTEMPTS: u16 = 5;

    fn dedup_key(&self) -> Option<String> {
        Some(self.merge_request_id.to_string())
    }
}

/// Runs the job.
///
/// # Errors
/// Returns an error if Git or the database fails; the job is then retried.
pub async fn run(backend: Backend, job: KeepMergeRequest) -> Result<(), Failure> {
    Ok(merge_requests::refresh(&backend, job.merge_request_id).await?)
}
