//! Removes memberships and shares that have ended.

use serde::{Deserialize, Serialize};
use storage::jobs::{Failure, Job};

use crate::services::Backend;
use crate::services::members::sweep_expired;

/// Removes what grants nothing any more. Reads do not wait for it: they leave out what has ended.
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
/// When the database fails; the job is tried again then.
pub async fn run(backend: Backend, _: SweepExpiredAccess) -> Result<(), Failure> {
    let swept = sweep_expired(&backend).await?;
    if swept > 0 {
        tracing::info!(swept, "removed expired memberships and shares");
    }
    Ok(())
}
