//! Links merge requests to a successful deployment.

use serde::{Deserialize, Serialize};
use storage::jobs::{Failure, Job};

use crate::delivery::deployments;
use crate::kernel::Backend;

/// Records which merge requests were deployed with a deployment.
#[derive(Debug, Serialize, Deserialize)]
pub struct ShipMergeRequests {
    /// The deployment.
    pub deployment_id: i64,
    /// The commit of the previous successful deployment to the environment; `None` for the first.
    pub since: Option<String>,
}

impl Job for ShipMergeRequests {
    const KIND: &'static str = "ship_merge_requests";
    const MAX_ATTEMPTS: u16 = 10;
}

/// Runs the job. Merge requests that are recorded already are skipped.
///
/// # Errors
/// Returns an error if Git or the database fails; the job is then retried.
pub async fn run(backend: Backend, job: ShipMergeRequests) -> Result<(), Failure> {
    Ok(deployments::ship(&backend, &job).await?)
}
