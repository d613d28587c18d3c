//! Effects of a merge.

use serde::{Deserialize, Serialize};
use storage::jobs::Job;

/// Closes the issues that a merged merge request closes, and deletes its source branch.
#[derive(Debug, Serialize, Deserialize)]
pub struct PostMerge {
    /// The merge request.
    pub merge_request_id: i64,
    /// The user who merged it. The job uses the permissions of this user.
    pub user_id: Option<i64>,
    /// Whether to delete the source branch, if its head is still the merged commit.
    pub remove_source_branch: bool,
}

impl Job for PostMerge {
    const KIND: &'static str = "finish_merge";
    const MAX_ATTEMPTS: u16 = 10;
}
