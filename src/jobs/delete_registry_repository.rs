//! Removing what is left of a repository of the container registry that was deleted.

use serde::{Deserialize, Serialize};
use storage::jobs::{Failure, Job};

use crate::services::{Backend, registry};

/// Removes the tags of a repository, and then the rest of it.
#[derive(Debug, Serialize, Deserialize)]
pub struct DeleteRegistryRepository {
    /// The repository, which nobody sees any more.
    pub repository_id: i64,
}

impl Job for DeleteRegistryRepository {
    const KIND: &'static str = "delete_registry_repository";

    fn dedup_key(&self) -> Option<String> {
        Some(self.repository_id.to_string())
    }
}

/// Runs the job; what an attempt before it has removed is no obstacle.
///
/// # Errors
/// When the database fails; the job is tried again then.
pub async fn run(backend: Backend, job: DeleteRegistryRepository) -> Result<(), Failure> {
    Ok(registry::repositories::erase(&backend, job.repository_id).await?)
}
