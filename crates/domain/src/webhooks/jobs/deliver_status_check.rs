//! Sends the pending requests to an external status check.

use storage::jobs::JobFailure;

use crate::activity::jobs::deliver_status_check::DeliverStatusCheck;
use crate::kernel::Backend;
use crate::webhooks::status_checks::deliver;

/// Runs the job. A deleted status check has nothing to send.
///
/// # Errors
/// Returns an error if the database fails; the job is then retried.
pub async fn run(backend: Backend, job: DeliverStatusCheck) -> Result<(), JobFailure> {
    Ok(deliver(&backend, job.status_check_id).await?)
}
