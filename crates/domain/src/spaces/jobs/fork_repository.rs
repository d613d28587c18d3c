//! Copy of the repository of a forked project.

use serde::{Deserialize, Serialize};
use storage::jobs::Job;

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
