//! Collection of the evidence of a release.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use storage::jobs::Job;

/// Collects the evidence of a release.
#[derive(Debug, Serialize, Deserialize)]
pub struct CollectReleaseEvidence {
    /// The release.
    pub release_id: i64,
    /// When a user requested the evidence. Without this time, the job collects the first evidence of the release, no
    /// earlier than its date.
    pub requested_at: Option<DateTime<Utc>>,
    /// When the collection of the first evidence was scheduled. Jobs of former versions have no time.
    pub scheduled_at: Option<DateTime<Utc>>,
}

impl Job for CollectReleaseEvidence {
    const KIND: &'static str = "collect_release_evidence";

    fn dedup_key(&self) -> Option<String> {
        let kind = match self.requested_at {
            Some(_) => "requested",
            None => "first",
        };
        Some(format!("{}/{kind}", self.release_id))
    }
}
