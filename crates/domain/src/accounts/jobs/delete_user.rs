//! Deletion of a user who is already hidden. `lifecycle` runs the job.

use serde::{Deserialize, Serialize};
use storage::jobs::Job;

/// Deletes a user permanently. Every step finds the results of earlier ones, so the job can be interrupted at
/// any point.
#[derive(Debug, Serialize, Deserialize)]
pub struct DeleteUser {
    /// The user.
    pub user_id: i64,
    /// Whether the content that the user created is deleted as well.
    pub hard: bool,
    /// The groups that are deleted with the user.
    pub groups: Vec<i64>,
}

impl Job for DeleteUser {
    const KIND: &'static str = "delete_user";

    fn dedup_key(&self) -> Option<String> {
        Some(self.user_id.to_string())
    }
}
