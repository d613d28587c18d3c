//! Sends the pending requests to an external status check.

use sea_orm::EntityTrait;
use storage::entities::status_checks;
use storage::jobs::JobFailure;

use crate::activity::jobs::deliver_status_check::DeliverStatusCheck;
use crate::kernel::Backend;
use crate::webhooks::delivery::take_share;
use crate::webhooks::status_checks::deliver;

/// Runs the job. A deleted status check has nothing to send.
///
/// # Errors
/// Returns an error if the database fails; the job is then retried. Postpones the job if too many deliveries of the
/// project or of its creator run.
pub async fn run(backend: Backend, job: DeliverStatusCheck) -> Result<(), JobFailure> {
    let check = status_checks::Entity::find_by_id(job.status_check_id).one(backend.database.read());
    let Some(check) = check.await? else {
        return Ok(());
    };
    let _share = take_share(&backend, check.project_id).await?;
    Ok(deliver(&backend, check.id).await?)
}
