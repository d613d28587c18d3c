//! Removes unreferenced data of the container registry.

use serde::{Deserialize, Serialize};
use storage::jobs::{Job, JobFailure};

use crate::kernel::Backend;
use crate::registry::garbage_collection;

/// Deletes manifests and blobs that have been unreferenced for long enough, and the files of earlier
/// deletions.
#[derive(Debug, Serialize, Deserialize)]
pub struct CollectRegistryGarbage {}

impl Job for CollectRegistryGarbage {
    const KIND: &'static str = "collect_images";

    fn dedup_key(&self) -> Option<String> {
        Some(String::new())
    }
}

/// Runs the job. It can be interrupted at any point and run again.
///
/// # Errors
/// Returns an error if the database or the storage fails; the job is then retried.
pub async fn run(backend: Backend, _: CollectRegistryGarbage) -> Result<(), JobFailure> {
    let collected = garbage_collection::collect(&backend).await?;
    let swept = garbage_collection::sweep(&backend).await?;
    if collected != garbage_collection::CollectionStats::default() || swept > 0 {
        tracing::info!(?collected, swept, "removed unreferenced registry blobs");
    }
    Ok(())
}
