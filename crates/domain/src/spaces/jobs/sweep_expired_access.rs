//! Deletes expired memberships and shares.

use serde::{Deserialize, Serialize};
use storage::jobs::{Job, JobFailure};

use crate::kernel::Backend;
use crate::spaces::members::sweep_expired;

/// Deletes memberships and shares that have expired. Reads do not depend on it, because they ignore expired
/// rows.
#[derive(Debug, Serialize, Deserialize)]
pub struct SweepExpiredAccess {}

impl Job for SweepExpiredAccess {
    const KIND: &'static str = "sweep_expired_access";

    fn dedup_key(&self) -> Option<String> {
        Some(String::new())
    }
}

/// Runs the job.
///
/// # Errors
/// Returns an error if the database fails; the job is then retried.
pub async fn run(backend: Backend, _: SweepExpiredAccess) -> Result<(), JobFailure> {
    let swept = sweep_expired(&backend).await?;
    if swept > 0 {
        tracing::info!(swept, "removed expired memberships and shares");
    }
    Ok(())
}
