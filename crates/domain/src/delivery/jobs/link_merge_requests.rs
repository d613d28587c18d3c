//! Links between merge requests and a successful deployment.

use serde::{Deserialize, Serialize};
use storage::jobs::Job;

/// Records which merge requests were deployed with a deployment.
#[derive(Debug, Serialize, Deserialize)]
pub struct LinkMergeRequests {
    /// The deployment.
    pub deployment_id: i64,
    /// The commit of the previous successful deployment to the environment; `None` for the first.
    pub since: Option<String>,
}

impl Job for LinkMergeRequests {
    const KIND: &'static str = "ship_merge_requests";
    const MAX_ATTEMPTS: u16 = 10;
}
