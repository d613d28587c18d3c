//! Removes a group for good, with everything in it.

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};
use storage::jobs::{Failure, Job};

use crate::services::Backend;
use crate::services::groups::erase;

/// Erases a group that is being removed.
#[derive(Debug, Serialize, Deserialize)]
pub struct DeleteGroup {
    /// The group.
    pub group_id: i64,
    /// The day it was marked, where removal is delayed: without that mark it was restored and stays.
    pub marked_on: Option<NaiveDate>,
}

impl Job for DeleteGroup {
    const KIND: &'static str = "delete_group";
    const MAX_ATTEMPTS: u16 = 25;
}

/// Runs the job; it may be killed at any point and be run again.
///
/// # Errors
/// When the file system or the database fails; the job is tried again then.
pub async fn run(backend: Backend, job: DeleteGroup) -> Result<(), Failure> {
    Ok(erase(&backend, job.group_id, job.marked_on).await?)
}
