//! What follows from a deployment that succeeded.

use serde::{Deserialize, Serialize};
use storage::jobs::{Failure, Job};

use crate::services::{Backend, deployments};

/// Enters which merge requests were shipped with a deployment.
#[derive(Debug, Serialize, Deserialize)]
pub struct ShipMergeRequests {
    /// The deployment.
    pub deployment_id: i64,
    /// The commit of the one to the environment that had succeeded before; none for the first.
    pub since: Option<String>,
}

impl Job for ShipMergeRequests {
    const KIND: &'static str = "ship_merge_requests";
    const MAX_ATTEMPTS: u16 = 10;
}

/// Runs the job; what it has entered before it does not enter again.
///
/// # Errors
/// When Git or the database fails; the job is tried again then.
pub async fn run(backend: Backend, job: ShipMergeRequests) -> Result<(), Failure> {
    Ok(deployments::ship(&backend, &job).await?)
}
