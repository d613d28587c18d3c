//! Deletes a group permanently, with its subgroups and projects.

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};
use storage::jobs::{Failure, Job};

use crate::kernel::Backend;
use crate::spaces::groups::erase;

/// Deletes a group that is marked for removal.
#[derive(Debug, Serialize, Deserialize)]
pub struct DeleteGroup {
    /// The group.
    pub group_id: i64,
    /// The day it was marked, if removal is delayed. A group without that mark was restored and is not
    /// deleted.
    pub marked_on: Option<NaiveDate>,
}

impl Job for DeleteGroup {
    const KIND: &'static str = "delete_group";
    const MAX_ATTEMPTS: u16 = 25;
}

/// Runs the job. It can be interrupted at any point and run again.
///
/// # Errors
/// Returns an error if the file system or the database fails; the job is then retried.
pub async fn run(backend: Backend, job: DeleteGroup) -> Result<(), Failure> {
    Ok(erase(&backend, job.group_id, job.marked_on).await?)
}
