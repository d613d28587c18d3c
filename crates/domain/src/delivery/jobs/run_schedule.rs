//! Runs a due pipeline schedule.

use serde::{Deserialize, Serialize};
use storage::jobs::{Failure, Job};

use crate::delivery::pipeline_schedules;
use crate::kernel::Backend;

/// Runs a schedule if it is due.
#[derive(Debug, Serialize, Deserialize)]
pub struct RunSchedule {
    /// The schedule.
    pub schedule_id: i64,
}

impl Job for RunSchedule {
    const KIND: &'static str = "run_schedule";

    fn dedup_key(&self) -> Option<String> {
        Some(self.schedule_id.to_string())
    }
}

/// Runs the job. A schedule that is not due is skipped.
///
/// # Errors
/// Returns an error if Git or the database fails; the job is then retried.
pub async fn run(backend: Backend, job: RunSchedule) -> Result<(), Failure> {
    Ok(pipeline_schedules::run_due(&backend, job.schedule_id).await?)
}
