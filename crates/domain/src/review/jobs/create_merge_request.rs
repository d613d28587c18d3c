//! Creation of a merge request that the options of a push request.

use serde::{Deserialize, Serialize};
use storage::jobs::Job;

use crate::kernel::ref_changes::MergeRequestOptions;

/// Creates a merge request for a pushed branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateMergeRequest {
    /// The project.
    pub project_id: i64,
    /// The user who pushed.
    pub user_id: i64,
    /// The branch.
    pub branch: String,
    /// Attributes of the merge request.
    pub options: MergeRequestOptions,
}

impl Job for CreateMergeRequest {
    const KIND: &'static str = "create_merge_request";
    const MAX_ATTEMPTS: u16 = 5;
}
