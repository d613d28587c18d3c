//! Deletes the tags of a registry repository that match the cleanup rules.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use storage::jobs::{Failure, Job};

use crate::kernel::Backend;
use crate::registry::tag_cleanup::{self, Wish};

/// Deletes tags of a repository.
#[derive(Debug, Serialize, Deserialize)]
pub struct DeleteRegistryTags {
    /// The repository.
    pub repository_id: i64,
    /// The cleanup rules.
    pub wish: Wish,
    /// Time of the request. Tags pushed later are not deleted.
    pub asked_at: DateTime<Utc>,
}

impl Job for DeleteRegistryTags {
    const KIND: &'static str = "delete_registry_tags";
}

/// Runs the job. It continues where an earlier attempt ended.
///
/// # Errors
/// Returns an error if the database fails; the job is then retried.
pub async fn run(backend: Backend, job: DeleteRegistryTags) -> Result<(), Failure> {
    Ok(tag_cleanup::run(&backend, job).await?)
}
