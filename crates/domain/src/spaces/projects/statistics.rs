//! Statistics of a project's repository.

use storage::entities::AccessLevel;

use super::ProjectDetail;
use crate::code::repository_access::commit_count;
use crate::kernel::Backend;
use crate::kernel::error::Result;

/// Counts the commits of a project for its statistics, since maintenance may not have run after the last
/// push.
///
/// # Errors
/// Returns an error if a Git operation fails.
pub async fn load_commit_count(backend: &Backend, row: &mut ProjectDetail) -> Result<()> {
    if row.effective_access.has_role(AccessLevel::Reporter) {
        row.project.commit_count = commit_count(backend, &row.project).await?;
    }
    Ok(())
}
