//! Copies the repository of a project that was forked.

use serde::{Deserialize, Serialize};
use storage::jobs::{Attempt, Failure, Job};

use crate::services::Backend;
use crate::services::projects::forks;

/// Fills the repository of a fork.
#[derive(Debug, Serialize, Deserialize)]
pub struct ForkRepository {
    /// The fork.
    pub project_id: i64,
    /// The project it comes from.
    pub source_id: i64,
    /// Who forks.
    pub user_id: Option<i64>,
}

impl Job for ForkRepository {
    const KIND: &'static str = "fork_repository";
    const MAX_ATTEMPTS: u16 = 5;

    fn dedup_key(&self) -> Option<String> {
        Some(self.project_id.to_string())
    }
}

/// Runs the job; it may be killed at any point and be run again. The last attempt that fails says so on the fork.
///
/// # Errors
/// When Git or the database fails; the job is tried again then.
pub async fn run(backend: Backend, job: ForkRepository, attempt: Attempt) -> Result<(), Failure> {
    let copied = forks::copy(&backend, &job).await;
    if copied.is_err() && attempt.is_last() {
        forks::give_up(&backend, &job).await?;
    }
    Ok(copied?)
}
