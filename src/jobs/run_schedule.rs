//! Runs a pipeline schedule when it is due.

use serde::{Deserialize, Serialize};
use storage::jobs::{Failure, Job};

use crate::services::{Backend, pipeline_schedules};

/// Runs a schedule that is due.
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

/// Runs the job; a schedule that is not due any more, or not yet, is not run.
///
/// # Errors
/// When Git or the database fails; the job is tried again then.
pub async fn run(backend: Backend, job: RunSchedule) -> Result<(), Failure> {
    Ok(pipeline_schedules::run_due(&backend, job.schedule_id).await?)
}
