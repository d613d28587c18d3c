//! Delivers what a webhook is still to be told.

use serde::{Deserialize, Serialize};
use storage::jobs::{Failure, Job};

use crate::services::Backend;
use crate::services::hooks::delivery::deliver;

/// Delivers to one hook, in order; there is never more than one such job running for a hook.
#[derive(Debug, Serialize, Deserialize)]
pub struct DeliverHook {
    /// The hook.
    pub hook_id: i64,
}

impl Job for DeliverHook {
    const KIND: &'static str = "deliver_hook";
    // Receivers that fail are no failures of the job; it goes on until the outbox says otherwise.
    const MAX_ATTEMPTS: u16 = u16::MAX;

    fn dedup_key(&self) -> Option<String> {
        Some(self.hook_id.to_string())
    }
}

/// Runs the job; a hook that is gone has nothing to deliver.
///
/// # Errors
/// When the database fails; the job is tried again then.
pub async fn run(backend: Backend, job: DeliverHook) -> Result<(), Failure> {
    Ok(deliver(&backend, job.hook_id).await?)
}
