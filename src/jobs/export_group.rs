//! Writes the archive of a group.

use serde::{Deserialize, Serialize};
use storage::jobs::{Failure, Job};

use crate::error::Error;
use crate::services::Backend;
use crate::services::group_transfers::exports;

/// Exports a group.
#[derive(Debug, Serialize, Deserialize)]
pub struct ExportGroup {
    /// The group.
    pub group_id: i64,
    /// Who asked for it.
    pub user_id: i64,
}

impl Job for ExportGroup {
    const KIND: &'static str = "export_group";
    const MAX_ATTEMPTS: u16 = 5;

    fn dedup_key(&self) -> Option<String> {
        // What an archive tells depends on whom it is for.
        Some(format!("{}:{}", self.group_id, self.user_id))
    }
}

/// Runs the job; it may be killed at any point and be run again.
///
/// # Errors
/// When the database, the storage or the disk fails; the job is tried again then. What is refused stays so.
pub async fn run(backend: Backend, job: ExportGroup) -> Result<(), Failure> {
    match exports::run(&backend, &job).await {
        Err(refused @ Error::Refused(_)) => Err(Failure::permanent(refused)),
        done => Ok(done?),
    }
}
