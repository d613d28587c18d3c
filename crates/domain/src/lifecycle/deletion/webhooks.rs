//! Deletes a webhook that is already hidden.

use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use storage::entities::project_hooks;
use storage::jobs::JobFailure;

use crate::kernel::Backend;
use crate::lifecycle::deletion::rows::{self, RowOwner};
use crate::webhooks::jobs::delete_webhook::DeleteWebhook;

/// Runs the job. It can be interrupted at any point and run again.
///
/// # Errors
/// Returns an error if the database fails; the job is then retried.
pub async fn run_job(backend: Backend, job: DeleteWebhook) -> Result<(), JobFailure> {
    let hidden = project_hooks::Entity::find_by_id(job.hook_id)
        .filter(project_hooks::Column::DeletionStartedAt.is_not_null())
        .one(backend.database.read())
        .await?;
    let Some(hook) = hidden else {
        return Ok(());
    };
    rows::delete_all(&backend, RowOwner::Webhook(hook.id)).await?;
    project_hooks::Entity::delete_by_id(hook.id)
        .exec(backend.database.write())
        .await?;
    Ok(())
}
