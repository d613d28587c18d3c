//! Run of a due pipeline schedule.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use storage::jobs::Job;

/// Runs a schedule if it is due.
#[derive(Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RunSchedule {
    /// The schedule.
    pub schedule_id: i64,
    /// The time of the run. If the job fails permanently, this run is skipped. Jobs of earlier versions have none.
    #[serde(default)]
    pub next_run_at: Option<DateTime<Utc>>,
}

impl Job for RunSchedule {
    const KIND: &'static str = "run_schedule";

    fn dedup_key(&self) -> Option<String> {
        Some(self.schedule_id.to_string())
    }
}
