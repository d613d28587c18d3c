//! Writes the export archive of a group.

use serde::{Deserialize, Serialize};
use storage::jobs::{Failure, Job};

use crate::kernel::Backend;
use crate::kernel::error::Error;
use crate::transfers::exports;

/// Exports a group to an archive.
#[derive(Debug, Serialize, Deserialize)]
pub struct ExportGroup {
    /// The group.
    pub group_id: i64,
    /// The user who requested it.
    pub user_id: i64,
}

impl Job for ExportGroup {
    const KIND: &'static str = "export_group";
    const MAX_ATTEMPTS: u16 = 5;

    fn dedup_key(&self) -> Option<String> {
        // The content of an archive depends on the user it is for.
        Some(format!("{}:{}", self.group_id, self.user_id))
    }
}

/// Runs the job. It can be interrupted at any point and run again.
///
/// # Errors
/// Returns an error if the database, the storage or the disk fails; the job is then retried. A rejected
/// export is not retried.
pub async fn run(backend: Backend, job: ExportGroup) -> Result<(), Failure> {
    match exports::run(&backend, &job).await {
        Err(refused @ Error::Refused(_)) => Err(Failure::permanent(refused)),
        done => Ok(done?),
    }
}
