//! Deletes a project permanently, with its repository.

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};
use storage::jobs::{Failure, Job};

use crate::kernel::Backend;
use crate::spaces::projects::erase;

/// Deletes a project that is marked for removal.
#[derive(Debug, Serialize, Deserialize)]
pub struct DeleteProject {
    /// The project.
    pub project_id: i64,
    /// The day it was marked, if removal is delayed. A project without that mark was restored and is not
    /// deleted.
    pub marked_on: Option<NaiveDate>,
    /// The user who requested it.
    #[serde(default)]
    pub user_id: Option<i64>,
}

impl Job for DeleteProject {
    const KIND: &'static str = "delete_project";
    const MAX_ATTEMPTS: u16 = 25;
}

/// Runs the job. It can be interrupted at any point and run again.
///
/// # Errors
/// Returns an error if the file system or the database fails; the job is then retried.
pub async fn run(backend: Backend, job: DeleteProject) -> Result<(), Failure> {
    Ok(erase(&backend, job.project_id, job.marked_on, job.user_id).await?)
}
