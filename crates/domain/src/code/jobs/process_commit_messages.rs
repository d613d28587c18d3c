//! Processing of the messages of pushed commits. `planning` runs the job.

use serde::{Deserialize, Serialize};
use storage::jobs::Job;

/// Commits pushed to a branch. IDs have 40 hex digits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingMessages {
    /// Short name of the branch.
    pub branch: String,
    /// The commit whose history is excluded, if any.
    pub base: Option<String>,
    /// The newest commit.
    pub tip: String,
}

/// Processes the messages of commits that were pushed to branches of a project.
#[derive(Debug, Serialize, Deserialize)]
pub struct ProcessCommitMessages {
    /// The project.
    pub project_id: i64,
    /// The user who pushed them.
    pub user_id: i64,
    /// The commits, by branch.
    pub unread: Vec<PendingMessages>,
}

impl Job for ProcessCommitMessages {
    const KIND: &'static str = "read_messages";
}
