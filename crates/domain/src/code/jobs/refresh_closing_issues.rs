//! Refresh of the issues that merge requests close. `review` runs the job.

use serde::{Deserialize, Serialize};
use storage::jobs::Job;

/// Updates which issues the merge requests of a project close. Needed after a change of the default branch,
/// or of the setting that closes issues automatically.
#[derive(Debug, Serialize, Deserialize)]
pub struct RefreshClosingIssues {
    /// The project.
    pub project_id: i64,
}

impl Job for RefreshClosingIssues {
    const KIND: &'static str = "recount_closing";

    fn dedup_key(&self) -> Option<String> {
        Some(self.project_id.to_string())
    }
}
