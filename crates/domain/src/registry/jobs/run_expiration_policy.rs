//! Payload of the job that runs the expiration policy of the container registry of a project.
//! `registry::expiration_policies` runs it.

use serde::{Deserialize, Serialize};
use storage::jobs::Job;

/// Deletes tags by the expiration policy of a project.
#[derive(Debug, Serialize, Deserialize)]
pub struct RunExpirationPolicy {
    /// The project.
    pub project_id: i64,
}

impl Job for RunExpirationPolicy {
    const KIND: &'static str = "run_expiration_policy";

    fn dedup_key(&self) -> Option<String> {
        Some(self.project_id.to_string())
    }
}
