//! Removes the objects of deleted package files.

use serde::{Deserialize, Serialize};
use storage::jobs::{Job, JobFailure};

use crate::kernel::Backend;
use crate::packages::garbage_collection;

/// Deletes the objects of deleted files and of abandoned uploads.
#[derive(Debug, Serialize, Deserialize)]
pub struct CollectPackageGarbage {}

impl Job for CollectPackageGarbage {
    const KIND: &'static str = "collect_package_garbage";

    fn dedup_key(&self) -> Option<String> {
        Some(String::new())
    }
}

/// Runs the job. It can be interrupted at any point and run again.
///
/// # Errors
/// Returns an error if the database or the storage fails; the job is then retried.
pub async fn run(backend: Backend, _: CollectPackageGarbage) -> Result<(), JobFailure> {
    let swept = garbage_collection::sweep(&backend).await?;
    if swept > 0 {
        tracing::info!(swept, "removed unused contents of package files");
    }
    Ok(())
}
