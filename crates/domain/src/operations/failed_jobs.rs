//! Jobs that failed permanently, for the command line.

use storage::entities::{jobs::Model, now};
use storage::jobs::{self, JobRegistry};

use crate::audit::{self, Actor, AuditEntity, AuditEvent, AuditKind, AuditTarget};
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};

/// Returns up to `limit` failed jobs with IDs above `after`, in the order of their IDs, of one kind or of all kinds.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn list_after(backend: &Backend, kind: Option<&str>, after: i64, limit: u64) -> Result<Vec<Model>> {
    Ok(jobs::list_failed(backend.database.read(), kind, after, limit).await?)
}

/// Queues a failed job again with all attempts of a new job, and returns it as it was. If an equivalent job waits
/// already, that job runs instead. `registry` has the maximum number of attempts of each kind.
///
/// # Errors
/// Returns `NotFound` if no failed job has this ID.
pub async fn retry(backend: &Backend, actor: &Actor, registry: &JobRegistry, id: i64) -> Result<Model> {
    backend
        .database
        .transaction(async |transaction| {
            let job = jobs::retry_failed(transaction, id, now(), registry).await?;
            let job = job.ok_or_else(|| Error::not_found("Failed job"))?;
            audit::record(transaction, actor, event(AuditKind::JobRetried, &job)).await?;
            Ok(job)
        })
        .await
}

/// Deletes a failed job and returns it.
///
/// # Errors
/// Returns `NotFound` if no failed job has this ID.
pub async fn discard(backend: &Backend, actor: &Actor, id: i64) -> Result<Model> {
    backend
        .database
        .transaction(async |transaction| {
            let job = jobs::discard_failed(transaction, id).await?;
            let job = job.ok_or_else(|| Error::not_found("Failed job"))?;
            audit::record(transaction, actor, event(AuditKind::JobDiscarded, &job)).await?;
            Ok(job)
        })
        .await
}

/// Returns the event of a job. The payload is not part of it, because it can contain personal data.
fn event(kind: AuditKind, job: &Model) -> AuditEvent {
    let target = AuditTarget::new("Job", job.id, job.kind.clone());
    AuditEvent::new(kind, AuditEntity::instance(), target)
}
