//! Fills a group from an archive.

use serde::{Deserialize, Serialize};
use storage::jobs::{Attempt, Failure, Job};

use crate::services::Backend;
use crate::services::group_transfers::imports;

/// Carries an import out.
#[derive(Debug, Serialize, Deserialize)]
pub struct ImportGroup {
    /// The import.
    pub import_id: i64,
}

impl Job for ImportGroup {
    const KIND: &'static str = "import_group";

    fn dedup_key(&self) -> Option<String> {
        Some(self.import_id.to_string())
    }
}

/// Runs the job; it may be killed at any point and be run again. The last attempt that fails says so in the import.
///
/// # Errors
/// When the database, the storage or the disk fails; the job is tried again then.
pub async fn run(backend: Backend, job: ImportGroup, attempt: Attempt) -> Result<(), Failure> {
    let done = imports::run(&backend, job.import_id).await;
    if done.is_err() && attempt.is_last() {
        imports::give_up(&backend, job.import_id).await?;
    }
    Ok(done?)
}
