//! Import of a repository into a new project. `mirrors` runs the job.

use serde::{Deserialize, Serialize};
use storage::jobs::Job;

/// Fetches the branches and tags of a remote repository into a new project.
#[derive(Debug, Serialize, Deserialize)]
pub struct ImportRepository {
    /// The project.
    pub project_id: i64,
    /// The default branch of the repository before the import.
    pub default_branch: String,
}

impl Job for ImportRepository {
    const KIND: &'static str = "import_repository";
    // An import records its failure. Further attempts follow only if the server is killed, or the database fails. The
    // last one records that the import was interrupted.
    const MAX_ATTEMPTS: u16 = 5;

    fn dedup_key(&self) -> Option<String> {
        Some(self.project_id.to_string())
    }
}
