//! Removes a project for good, with its repository.

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};
use storage::jobs::{Failure, Job};

use crate::services::Backend;
use crate::services::projects::erase;

/// Erases a project that is being removed.
#[derive(Debug, Serialize, Deserialize)]
pub struct DeleteProject {
    /// The project.
    pub project_id: i64,
    /// The day it was marked, where removal is delayed: without that mark it was restored and stays.
    pub marked_on: Option<NaiveDate>,
    /// Who asked for it.
    #[serde(default)]
    pub user_id: Option<i64>,
}

impl Job for DeleteProject {
    const KIND: &'static str = "delete_project";
    const MAX_ATTEMPTS: u16 = 25;
}

/// Runs the job; it may be killed at any point and be run again.
///
/// # Errors
/// When the file system or the database fails; the job is tried again then.
pub async fn run(backend: Backend, job: DeleteProject) -> Result<(), Failure> {
    Ok(erase(&backend, job.project_id, job.marked_on, job.user_id).await?)
}
