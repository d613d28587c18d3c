//! Delivers the pending events of a webhook.

use storage::jobs::JobFailure;

use crate::activity::jobs::deliver_webhook::DeliverWebhook;
use crate::kernel::Backend;
use crate::webhooks::delivery::deliver;

/// Runs the job. A deleted webhook has nothing to deliver.
///
/// # Errors
/// Returns an error if the database fails; the job is then retried.
pub async fn run(backend: Backend, job: DeliverWebhook) -> Result<(), JobFailure> {
    Ok(deliver(&backend, job.hook_id).await?)
}
