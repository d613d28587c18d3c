//! Run of a due pipeline schedule.

use serde::{Deserialize, Serialize};
use storage::jobs::Job;

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
