//! Imports a group from an archive.

use serde::{Deserialize, Serialize};
use storage::jobs::{Attempt, Failure, Job};

use crate::kernel::Backend;
use crate::transfers::imports;

/// Executes an import.
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

/// Runs the job. It can be interrupted at any point and run again. If the last attempt fails, the failure is
/// recorded in the import.
///
/// # Errors
/// Returns an error if the database, the storage or the disk fails; the job is then retried.
pub async fn run(backend: Backend, job: ImportGroup, attempt: Attempt) -> Result<(), Failure> {
    let done = imports::run(&backend, job.import_id).await;
    if done.is_err() && attempt.is_last() {
        imports::give_up(&backend, job.import_id).await?;
    }
    Ok(done?)
}
