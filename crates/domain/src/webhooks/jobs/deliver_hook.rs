//! Delivers the pending events of a webhook.

use serde::{Deserialize, Serialize};
use storage::jobs::{Failure, Job};

use crate::kernel::Backend;
use crate::webhooks::delivery::deliver;

/// Delivers the events of one webhook in order. At most one such job runs for a webhook at a time.
#[derive(Debug, Serialize, Deserialize)]
pub struct DeliverHook {
    /// The webhook.
    pub hook_id: i64,
}

impl Job for DeliverHook {
    const KIND: &'static str = "deliver_hook";
    // A failure of the receiver is not a failure of the job, which runs until the outbox is done.
    const MAX_ATTEMPTS: u16 = u16::MAX;

    fn dedup_key(&self) -> Option<String> {
        Some(self.hook_id.to_string())
    }
}

/// Runs the job. A deleted webhook has nothing to deliver.
///
/// # Errors
/// Returns an error if the database fails; the job is then retried.
pub async fn run(backend: Backend, job: DeliverHook) -> Result<(), Failure> {
    Ok(deliver(&backend, job.hook_id).await?)
}
