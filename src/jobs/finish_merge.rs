//! What follows from a merge.

use serde::{Deserialize, Serialize};
use storage::jobs::{Failure, Job};

use crate::services::{Backend, merge_requests};

/// Closes the issues that a merged merge request closes, and removes its source branch.
#[derive(Debug, Serialize, Deserialize)]
pub struct FinishMerge {
    /// The merge request.
    pub merge_request_id: i64,
    /// Who merged it, with whose rights all of this is done.
    pub user_id: Option<i64>,
    /// Removes the source branch, if it still stands where it was merged.
    pub remove_source_branch: bool,
}

impl Job for FinishMerge {
    const KIND: &'static str = "finish_merge";
    const MAX_ATTEMPTS: u16 = 10;
}

/// Runs the job; what it has done before it does not do again.
///
/// # Errors
/// When Git or the database fails; the job is tried again then.
pub async fn run(backend: Backend, job: FinishMerge) -> Result<(), Failure> {
    Ok(merge_requests::finish(&backend, &job).await?)
}
