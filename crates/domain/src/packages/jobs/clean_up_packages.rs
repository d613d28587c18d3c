//! Payload of the job that runs the cleanup policy of the packages of a project. `packages::cleanup` runs it.

use serde::{Deserialize, Serialize};
use storage::jobs::Job;

/// Deletes older files of packages by the cleanup policy of a project.
#[derive(Debug, Serialize, Deserialize)]
pub struct CleanUpPackages {
    /// The project.
    pub project_id: i64,
}

impl Job for CleanUpPackages {
    const KIND: &'static str = "clean_up_packages";

    fn dedup_key(&self) -> Option<String> {
        Some(self.project_id.to_string())
    }
}
