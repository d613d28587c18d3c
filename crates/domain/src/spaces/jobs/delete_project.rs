//! Permanent deletion of a project, with its repository. `lifecycle` runs the job.

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};
use storage::jobs::Job;

/// Deletes a project that is marked for removal, or the files of a project whose row was deleted.
#[derive(Debug, Serialize, Deserialize)]
pub struct DeleteProject {
    /// The project.
    pub project_id: i64,
    /// The day it was marked, if removal is delayed. A project without that mark was restored and is not
    /// deleted.
    pub marked_on: Option<NaiveDate>,
    /// The user who requested it.
    #[serde(default)]
    pub user_id: Option<i64>,
}

impl Job for DeleteProject {
    const KIND: &'static str = "delete_project";
    const MAX_ATTEMPTS: u16 = 25;

    /// Scheduled deletions have a key, so that they can be canceled.
    fn dedup_key(&self) -> Option<String> {
        self.marked_on.map(|day| format!("{}:{day}", self.project_id))
    }
}
