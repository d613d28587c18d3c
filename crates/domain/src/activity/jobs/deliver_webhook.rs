//! Delivery of the pending events of a webhook. `webhooks` runs the job.

use serde::{Deserialize, Serialize};
use storage::jobs::Job;

/// Delivers the events of one webhook in order. At most one such job runs for a webhook at a time.
#[derive(Debug, Serialize, Deserialize)]
pub struct DeliverWebhook {
    /// The webhook.
    pub hook_id: i64,
}

impl Job for DeliverWebhook {
    const KIND: &'static str = "deliver_hook";
    // A failure of the receiver is not a failure of the job, which runs until the outbox is done.
    const MAX_ATTEMPTS: u16 = u16::MAX;

    fn dedup_key(&self) -> Option<String> {
        Some(self.hook_id.to_string())
    }
}
