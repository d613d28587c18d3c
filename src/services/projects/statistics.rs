//! Figures of a project's repository.

use git::{Error, RepositoryId, Selection};
use storage::entities::{AccessLevel, projects};

use super::Row;
use crate::error::Result;
use crate::services::Backend;

/// How many commits the default branch has at this moment; none where there is no such branch. A count is remembered
/// by the commit that the branch stands at.
///
/// # Errors
/// Whatever Git reports.
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

/// Counts the commits of a project that is shown with its statistics: upkeep may not have run since the last push.
///
/// # Errors
/// Whatever Git reports.
pub async fn count_commits(backend: &Backend, row: &mut Row) -> Result<()> {
    if row.standing.holds(AccessLevel::Reporter) {
        row.project.commit_count = commit_count(backend, &row.project).await?;
    }
    Ok(())
}
