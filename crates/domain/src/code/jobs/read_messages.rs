//! Processes references and closing keywords in the messages of pushed commits.

use serde::{Deserialize, Serialize};
use storage::jobs::{Failure, Job};

use crate::code::commits::commit_messages;
use crate::code::push_events::Unread;
use crate::kernel::Backend;

/// Processes the messages of commits that were pushed to branches of a project.
#[derive(Debug, Serialize, Deserialize)]
pub struct ReadMessages {
    /// The project.
    pub project_id: i64,
    /// The user who pushed them.
    pub user_id: i64,
    /// The commits, by branch.
    pub unread: Vec<Unread>,
}

impl Job for ReadMessages {
    const KIND: &'static str = "read_messages";
}

/// Runs the job.
///
/// # Errors
/// Returns an error if Git or the database fails; the job is then retried.
pub async fn run(backend: Backend, job: ReadMessages) -> Result<(), Failure> {
    for unread in &job.unread {
        commit_messages::read(&backend, job.project_id, job.user_id, unread).await?;
    }
    Ok(())
}
