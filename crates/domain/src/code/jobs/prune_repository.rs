//! Repacks a repository completely, on request.

use git::{Error, RepackExtent, RepositoryId};
use serde::{Deserialize, Serialize};
use storage::jobs::{Job, JobFailure};

use super::maintain_repository;
use crate::kernel::Backend;

/// Writes all objects of the repository of a project into one pack, and deletes old unreachable objects.
#[derive(Debug, Serialize, Deserialize)]
pub struct PruneRepository {
    /// The project.
    pub project_id: i64,
}

impl Job for PruneRepository {
    const KIND: &'static str = "prune_repository";
    const MAX_ATTEMPTS: u16 = 2;

    fn dedup_key(&self) -> Option<String> {
        Some(self.project_id.to_string())
    }
}

/// Runs the job. A deleted repository needs no housekeeping.
///
/// # Errors
/// Returns an error if Git or the database fails; the job is then retried.
pub async fn run(backend: Backend, job: PruneRepository) -> Result<(), JobFailure> {
    let id = RepositoryId::of_project(job.project_id);
    let repository = backend.repositories.repository(&id);
    match repository.delete_abandoned_files().await {
        Err(Error::RepositoryMissing) => return Ok(()),
        outcome => outcome?,
    }
    repository.repack(RepackExtent::Full).await?;
    maintain_repository::maintain(&backend, job.project_id).await
}
