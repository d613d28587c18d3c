//! Access to the repository of a project.

use git::{CommitSelection, Oid, RepositoryId};
use storage::entities::projects;

use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};

/// Returns whether the project's code is available to the caller. The feature may be disabled or limited to
/// members.
#[must_use]
pub fn has_repository(access: &ProjectAccess) -> bool {
    access
        .effective_access()
        .has_feature(access.project.repository_access_level)
}

/// Returns the repository of a project.
///
/// # Errors
/// Returns `Error::NotFound` if the repository is not available to the caller.
pub fn repository(backend: &Backend, access: &ProjectAccess) -> Result<git::Repository> {
    if !has_repository(access) {
        return Err(Error::not_found("Repository"));
    }
    Ok(open(backend, access))
}

/// Returns the repository of a project, regardless of its settings.
pub(crate) fn open(backend: &Backend, access: &ProjectAccess) -> git::Repository {
    let id = RepositoryId::of_project(access.project.id);
    access.caller.with_shares(backend.repositories.repository(&id))
}

/// Returns the head of a project's default branch, or `None` if the branch does not exist.
pub(crate) async fn default_branch_head(
    repository: &git::Repository,
    project: &projects::Model,
) -> Result<Option<Oid>> {
    let Some(branch) = project.default_branch.as_deref() else {
        return Ok(None);
    };
    match repository.targets(vec![format!("refs/heads/{branch}")]).await {
        Ok(targets) => Ok(targets.into_iter().flatten().next()),
        Err(git::Error::RepositoryMissing) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns commits, or none if their messages take too much memory.
///
/// # Errors
/// As [`git::Repository::commits`].
pub(crate) async fn commits_of_limited_size(
    repository: &git::Repository,
    ids: Vec<Oid>,
) -> Result<Vec<git::Commit>, git::Error> {
    match repository.commits(ids).await {
        Err(error @ git::Error::LimitExceeded(_)) => {
            tracing::warn!(%error, "messages of commits are not read");
            Ok(Vec::new())
        }
        result => result,
    }
}

/// Creates the repository of a project unless it exists.
///
/// # Errors
/// Returns an error if a file operation fails.
pub async fn ensure_repository(
    backend: &Backend,
    project_id: i64,
    default_branch: &str,
) -> Result<(), git::Error> {
    let id = RepositoryId::of_project(project_id);
    match backend.repositories.create(&id, default_branch).await {
        Ok(_) | Err(git::Error::RepositoryExists) => Ok(()),
        Err(error) => Err(error),
    }
}

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
    let head = match repository.branch(branch).await {
        Err(git::Error::BranchNotFound | git::Error::RepositoryMissing) => return Ok(0),
        branch => branch?.commit,
    };
    let selection = CommitSelection {
        tips: vec![head],
        ..CommitSelection::default()
    };
    let count = repository.count_commits(selection, usize::MAX).await?;
    Ok(i64::try_from(count).unwrap_or(i64::MAX))
}
