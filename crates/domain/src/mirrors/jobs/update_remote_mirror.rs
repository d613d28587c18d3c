//! Update of a remote mirror. `mirrors::updates` runs the job.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use storage::jobs::Job;

/// Pushes the branches and tags of a project to one mirror. At most one such job runs for a mirror at a time.
#[derive(Debug, Serialize, Deserialize)]
pub struct UpdateRemoteMirror {
    /// The mirror.
    pub mirror_id: i64,
}

impl Job for UpdateRemoteMirror {
    const KIND: &'static str = "update_remote_mirror";
    // With the delays between the attempts, about ten minutes.
    const MAX_ATTEMPTS: u16 = 8;
    // An update has a shorter limit of its own, after which it records the failure.
    const TIMEOUT: Duration = Duration::from_secs(60 * 60);

    fn dedup_key(&self) -> Option<String> {
        Some(self.mirror_id.to_string())
    }
}
