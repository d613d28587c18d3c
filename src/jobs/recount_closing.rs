//! Counting again what the merge requests of a project close.

use serde::{Deserialize, Serialize};
use storage::jobs::{Failure, Job};

use crate::services::{Backend, merge_requests};

/// Brings in step which issues the merge requests of a project close, after its default branch changed or whether it
/// closes issues at all.
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
/// When Git or the database fails; the job is tried again then.
pub async fn run(backend: Backend, job: RecountClosing) -> Result<(), Failure> {
    Ok(merge_requests::recount_closing(&backend, job.project_id).await?)
}
