//! Delivers the pending events of a webhook.

use storage::entities::project_hooks;
use storage::jobs::JobFailure;

use crate::activity::jobs::deliver_webhook::DeliverWebhook;
use crate::kernel::Backend;
use crate::webhooks::delivery::{deliver, take_share};

/// Runs the job. A deleted webhook has nothing to deliver.
///
/// # Errors
/// Returns an error if the database fails; the job is then retried. Postpones the job if too many deliveries of the
/// project or of its creator run.
pub async fn run(backend: Backend, job: DeliverWebhook) -> Result<(), JobFailure> {
    let hook = project_hooks::by_id(job.hook_id).one(backend.database.read());
    let Some(hook) = hook.await? else {
        return Ok(());
    };
    let _share = take_share(&backend, hook.project_id).await?;
    Ok(deliver(&backend, hook.id).await?)
}
