//! Creates the repository of a project whose server was killed after it inserted the row.

use chrono::TimeDelta;
use sea_orm::{ColumnTrait, PaginatorTrait, QueryFilter};
use serde::{Deserialize, Serialize};
use storage::entities::projects;
use storage::jobs::{Job, JobFailure};

use crate::code::repository_access::ensure_repository;
use crate::kernel::Backend;

/// Creates the repository of a project unless it exists.
#[derive(Debug, Serialize, Deserialize)]
pub struct CreateRepository {
    /// The project.
    pub project_id: i64,
    /// The default branch of the repository.
    pub default_branch: String,
}

impl CreateRepository {
    /// Time that the request which inserted the row has to create the repository itself.
    pub const GRACE_PERIOD: TimeDelta = TimeDelta::minutes(1);
}

impl Job for CreateRepository {
    const KIND: &'static str = "create_repository";

    fn dedup_key(&self) -> Option<String> {
        Some(self.project_id.to_string())
    }
}

/// Runs the job. A deleted project needs no repository.
///
/// # Errors
/// Returns an error if the file system or the database fails; the job is then retried.
pub async fn run(backend: Backend, job: CreateRepository) -> Result<(), JobFailure> {
    let project = projects::not_deleted().filter(projects::Column::Id.eq(job.project_id));
    if project.count(backend.database.read()).await? > 0 {
        ensure_repository(&backend, job.project_id, &job.default_branch).await?;
    }
    Ok(())
}
