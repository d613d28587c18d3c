//! Deletion of the tags of a registry repository that match the cleanup rules.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use storage::jobs::Job;

/// Selection rules, as stored in a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CleanupRules {
    /// Expression for tags to delete; it must match the whole name.
    pub delete: String,
    /// Expression for tags to retain; it must match the whole name.
    pub keep: Option<String>,
    /// Number of newest tags to retain.
    pub keep_n: Option<u64>,
    /// Only images created before this time.
    pub before: Option<DateTime<Utc>>,
}

/// Deletes tags of a repository.
#[derive(Debug, Serialize, Deserialize)]
pub struct DeleteRegistryTags {
    /// The repository.
    pub repository_id: i64,
    /// The cleanup rules.
    pub wish: CleanupRules,
    /// Time of the request. Tags pushed later are not deleted.
    pub asked_at: DateTime<Utc>,
}

impl Job for DeleteRegistryTags {
    const KIND: &'static str = "delete_registry_tags";
}
