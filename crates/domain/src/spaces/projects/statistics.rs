//! Statistics of a project's repository.

use git::{Error, RepositoryId, Selection};
use storage::entities::{AccessLevel, projects};

use super::Row;
use crate::kernel::Backend;
use crate::kernel::error::Result;

/// Returns the number of commits on the default branch, or 0 without one. The count is cached by the head of
/// the branch.
///
/// # Errors
/// Returns an error if a Git operation fails.
pub async fn commit_count(backend: &Backend, project: &projects::Model) -> Result<i64> {
    let Some(branch) = project.default_branch.as_deref() else {
        return Ok(0);
    };
    let id = RepositoryId::of_project(project.id);
    let repository = backend.repositories.repository(&id);
    let tip = match repository.branch(branch).await {
        Err(Error::BranchNotFound | Error::RepositoryMissing) => return Ok(0),
        branch => branch?.commit,
    };
    let selection = Selection {
        tips: vec![tip],
        ..Selection::default()
    };
    let count = repository.count_commits(selection, usize::MAX).await?;
    Ok(i64::try_from(count).unwrap_or(i64::MAX))
}

/// Counts the commits of a project for its statistics, since maintenance may not have run after the last
/// push.
///
/// # Errors
/// Returns an error if a Git operation fails.
pub async fn count_commits(backend: &Backend, row: &mut Row) -> Result<()> {
    if row.standing.holds(AccessLevel::Reporter) {
        row.project.commit_count = commit_count(backend, &row.project).await?;
    }
    Ok(())
}
