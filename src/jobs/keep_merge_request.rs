//! Keeping the commits of a merge request where it is to be merged.

use serde::{Deserialize, Serialize};
use storage::jobs::{Failure, Job};

use crate::services::{Backend, merge_requests};

/// Brings the head of a merge request into the repository of its target, and the reference it is fetched by up to date.
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
/// When Git or the database fails; the job is tried again then.
pub async fn run(backend: Backend, job: KeepMergeRequest) -> Result<(), Failure> {
    Ok(merge_requests::refresh(&backend, job.merge_request_id).await?)
}
