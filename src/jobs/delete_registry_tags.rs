//! Deleting those tags of a repository of the container registry that rules choose.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use storage::jobs::{Failure, Job};

use crate::services::Backend;
use crate::services::registry::cleaning::{self, Wish};

/// Deletes tags of a repository.
#[derive(Debug, Serialize, Deserialize)]
pub struct DeleteRegistryTags {
    /// The repository.
    pub repository_id: i64,
    /// Which tags.
    pub wish: Wish,
    /// When somebody wished so: what is pushed later is not meant.
    pub asked_at: DateTime<Utc>,
}

impl Job for DeleteRegistryTags {
    const KIND: &'static str = "delete_registry_tags";
}

/// Runs the job; it goes on where an attempt before it ended.
///
/// # Errors
/// When the database fails; the job is tried again then.
pub async fn run(backend: Backend, job: DeleteRegistryTags) -> Result<(), Failure> {
    Ok(cleaning::run(&backend, job).await?)
}
