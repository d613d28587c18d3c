//! Deletion of a webhook that is already hidden. `lifecycle` runs the job.

use serde::{Deserialize, Serialize};
use storage::jobs::Job;

/// Deletes a hidden webhook with its deliveries.
#[derive(Debug, Serialize, Deserialize)]
pub struct DeleteWebhook {
    /// The webhook.
    pub hook_id: i64,
}

impl Job for DeleteWebhook {
    const KIND: &'static str = "delete_webhook";

    fn dedup_key(&self) -> Option<String> {
        Some(self.hook_id.to_string())
    }
}
