//! Refreshes the closing issues of the merge requests of a project.

use storage::jobs::JobFailure;

use crate::kernel::Backend;
use crate::review::merge_requests;
use crate::spaces::jobs::recount_closing::RecountClosing;

/// Runs the job.
///
/// # Errors
/// Returns an error if Git or the database fails; the job is then retried.
pub async fn run(backend: Backend, job: RecountClosing) -> Result<(), JobFailure> {
    Ok(merge_requests::recount_closing(&backend, job.project_id).await?)
}
