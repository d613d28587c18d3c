//! Delivery of the pending requests to an external status check. `webhooks` runs the job.

use serde::{Deserialize, Serialize};
use storage::jobs::Job;

/// Sends the pending requests to one status check in order. At most one such job runs for a status check at a time.
#[derive(Debug, Serialize, Deserialize)]
pub struct DeliverStatusCheck {
    /// The status check.
    pub status_check_id: i64,
}

impl Job for DeliverStatusCheck {
    const KIND: &'static str = "deliver_status_check";
    // A failure of the service is not a failure of the job, which runs until the outbox is done.
    const MAX_ATTEMPTS: u16 = u16::MAX;

    fn dedup_key(&self) -> Option<String> {
        Some(self.status_check_id.to_string())
    }
}
