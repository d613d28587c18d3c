//! Commits of a repository: lists, creation and comments.

pub mod cherry_pick;
pub mod comments;
pub mod commit;
pub mod content;
pub mod create;
pub mod listing;
mod start_point;

use git::{Oid, RepositoryId};
use storage::entities::projects;

use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};

/// Returns whether the project's code is available to the caller. The feature may be disabled or limited to
/// members.
#[must_use]
pub fn has_repository(access: &ProjectAccess) -> bool {
    access.standing().has(access.project.repository_access_level)
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
    backend.repositories.repository(&id)
}

/// Returns the head of a project's default branch, or `None` if the branch does not exist.
pub(crate) async fn tip(repository: &git::Repository, project: &projects::Model) -> Result<Option<Oid>> {
    let Some(branch) = project.default_branch.as_deref() else {
        return Ok(None);
    };
    match repository.targets(vec![format!("refs/heads/{branch}")]).await {
        Ok(targets) => Ok(targets.into_iter().flatten().next()),
        Err(git::Error::RepositoryMissing) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
