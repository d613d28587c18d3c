//! Processes references and closing keywords in the messages of pushed commits.

use storage::jobs::JobFailure;

use crate::code::jobs::process_commit_messages::ProcessCommitMessages;
use crate::kernel::Backend;
use crate::planning::commit_messages;

/// Runs the job.
///
/// # Errors
/// Returns an error if Git or the database fails; the job is then retried.
pub async fn run(backend: Backend, job: ProcessCommitMessages) -> Result<(), JobFailure> {
    for unread in &job.unread {
        commit_messages::process(&backend, job.project_id, job.user_id, unread).await?;
    }
    Ok(())
}
