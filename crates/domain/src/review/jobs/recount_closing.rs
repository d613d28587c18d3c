//! Refreshes the closing issues of the merge requests of a project.

use serde::{Deserialize, Serialize};
use storage::jobs::{Failure, Job};

use crate::kernel::Backend;
use crate::review::merge_requests;

/// Updates which issues the merge requests of a project close. Needed after a change of the default branch,
/// or of the setting that closes issues automatically.
#[derive(Debug, Serialize, Deserialize)]
pub struct RecountClosing {
    /// The project.
    pub project_id: i64,
}

impl Job for RecountClosing {
    const KIND: &'static str = "recount_closing";

    fn dedup_key(&self) -> Option<String> {
        Some(self.project_id.to_string())
    }
}

/// Runs the job.
///
/// # Errors
/// Returns an error if Git or the database fails; the job is then retried.
pub async fn run(backend: Backend, job: RecountClosing) -> Result<(), Failure> {
    Ok(merge_requests::recount_closing(&backend, job.project_id).await?)
}
