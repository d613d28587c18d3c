//! Merges merge requests that wait for a successful pipeline.

use storage::jobs::JobFailure;

use crate::code::jobs::auto_merge::AutoMerge;
use crate::kernel::Backend;
use crate::review::merge_requests;

/// Runs the job. A merge request that does not wait any more, or waits for another pipeline, is skipped.
///
/// # Errors
/// Returns an error if Git or the database fails; the job is then retried.
pub async fn run(backend: Backend, job: AutoMerge) -> Result<(), JobFailure> {
    Ok(merge_requests::run_auto_merge(&backend, job.merge_request_id).await?)
}
