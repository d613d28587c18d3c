//! Removes what nobody needs of container images.

use serde::{Deserialize, Serialize};
use storage::jobs::{Failure, Job};

use crate::services::Backend;
use crate::services::registry::collecting;

/// Collects manifests and blobs that were of no use for long enough, and sweeps what they lay in.
#[derive(Debug, Serialize, Deserialize)]
pub struct CollectImages {}

impl Job for CollectImages {
    const KIND: &'static str = "collect_images";

    fn dedup_key(&self) -> Option<String> {
        Some(String::new())
    }
}

/// Runs the job; it may be killed at any point and be run again.
///
/// # Errors
/// When the database or the storage fails; the job is tried again then.
pub async fn run(backend: Backend, _: CollectImages) -> Result<(), Failure> {
    let collected = collecting::collect(&backend).await?;
    let swept = collecting::sweep(&backend).await?;
    if collected != collecting::Collected::default() || swept > 0 {
        tracing::info!(?collected, swept, "removed unreferenced registry blobs");
    }
    Ok(())
}
