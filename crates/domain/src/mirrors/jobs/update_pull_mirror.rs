//! Update of a pull mirror. `mirrors::pull_mirrors` runs the job.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use storage::jobs::Job;

/// Fetches the branches and tags of a remote repository into a project. At most one such job runs for a mirror at a time.
#[derive(Debug, Serialize, Deserialize)]
pub struct UpdatePullMirror {
    /// The mirror.
    pub mirror_id: i64,
}

impl Job for UpdatePullMirror {
    const KIND: &'static str = "update_pull_mirror";
    // An update records its failure. Further attempts follow only if the server is killed, or the database fails.
    const MAX_ATTEMPTS: u16 = 5;
    // An update has a shorter limit of its own, after which it records the failure.
    const TIMEOUT: Duration = Duration::from_secs(60 * 60);

    fn dedup_key(&self) -> Option<String> {
        Some(self.mirror_id.to_string())
    }
}
