//! Copies the repository of a forked project.

use serde::{Deserialize, Serialize};
use storage::jobs::{Attempt, Failure, Job};

use crate::kernel::Backend;
use crate::spaces::projects::forks;

/// Copies the repository of the source to the fork.
#[derive(Debug, Serialize, Deserialize)]
pub struct ForkRepository {
    /// The fork.
    pub project_id: i64,
    /// The project that is forked.
    pub source_id: i64,
    /// The user who forks the project.
    pub user_id: Option<i64>,
}

impl Job for ForkRepository {
    const KIND: &'static str = "fork_repository";
    const MAX_ATTEMPTS: u16 = 5;

    fn dedup_key(&self) -> Option<String> {
        Some(self.project_id.to_string())
    }
}

/// Runs the job. It can be interrupted at any point and run again. If the last attempt fails, the failure is
/// recorded on the fork.
///
/// # Errors
/// Returns an error if Git or the database fails; the job is then retried.
pub async fn run(backend: Backend, job: ForkRepository, attempt: Attempt) -> Result<(), Failure> {
    let copied = forks::copy(&backend, &job).await;
    if copied.is_err() && attempt.is_last() {
        forks::give_up(&backend, &job).await?;
    }
    Ok(copied?)
}
