//! Deletes the remaining data of a deleted repository of the container registry.

use serde::{Deserialize, Serialize};
use storage::jobs::{Job, JobFailure};

use crate::kernel::Backend;
use crate::registry;

/// Deletes the tags of a repository, and then its other data.
#[derive(Debug, Serialize, Deserialize)]
pub struct DeleteRegistryRepository {
    /// The repository, which is already hidden from users.
    pub repository_id: i64,
}

impl Job for DeleteRegistryRepository {
    const KIND: &'static str = "delete_registry_repository";

    fn dedup_key(&self) -> Option<String> {
        Some(self.repository_id.to_string())
    }
}

/// Runs the job. Data that an earlier attempt deleted is skipped.
///
/// # Errors
/// Returns an error if the database fails; the job is then retried.
pub async fn run(backend: Backend, job: DeleteRegistryRepository) -> Result<(), JobFailure> {
    Ok(registry::repositories::delete_content(&backend, job.repository_id).await?)
}
