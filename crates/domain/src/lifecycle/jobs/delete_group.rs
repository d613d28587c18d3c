//! Permanent deletion of a group, with its subgroups and projects.

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};
use storage::jobs::Job;

/// Deletes a group that is marked for removal.
#[derive(Debug, Serialize, Deserialize)]
pub struct DeleteGroup {
    /// The group.
    pub group_id: i64,
    /// The day it was marked, if removal is delayed. A group without that mark was restored and is not
    /// deleted.
    pub marked_on: Option<NaiveDate>,
}

impl Job for DeleteGroup {
    const KIND: &'static str = "delete_group";
    const MAX_ATTEMPTS: u16 = 25;

    /// Scheduled deletions have a key, so that they can be canceled.
    fn dedup_key(&self) -> Option<String> {
        self.marked_on.map(|day| format!("{}:{day}", self.group_id))
    }
}
