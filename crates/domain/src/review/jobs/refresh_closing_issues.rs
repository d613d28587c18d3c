//! Refreshes the closing issues of the merge requests of a project.

use storage::jobs::JobFailure;

use crate::code::jobs::refresh_closing_issues::RefreshClosingIssues;
use crate::kernel::Backend;
use crate::review::merge_requests::closing_issues;

/// Runs the job.
///
/// # Errors
/// Returns an error if Git or the database fails; the job is then retried.
pub async fn run(backend: Backend, job: RefreshClosingIssues) -> Result<(), JobFailure> {
    Ok(closing_issues::refresh_project(&backend, job.project_id).await?)
}
