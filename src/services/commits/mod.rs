//! The history of a repository: reading it, adding to it, and talking about it (specification 4.2).

pub mod comments;
pub mod committing;
pub mod content;
pub mod creation;
pub mod listing;
pub mod messages;
mod start;
pub mod transplanting;

use git::{Oid, RepositoryId};
use storage::entities::projects;

use crate::error::{Error, Result};
use crate::services::Backend;
use crate::services::access::ProjectAccess;

/// Whether the project's code is there for the caller at all: the feature may be off, or for members only.
#[must_use]
pub fn has_repository(access: &ProjectAccess) -> bool {
    access.standing().has(access.project.repository_access_level)
}

/// Whether the caller may read the code.
#[must_use]
pub fn may_read_code(access: &ProjectAccess) -> bool {
    let project = &access.project;
    access
        .standing()
        .reads_code(project.repository_access_level, project.visibility)
}

/// The repository of a project.
///
/// # Errors
/// 404 when the project has none for this caller.
pub fn repository(backend: &Backend, access: &ProjectAccess) -> Result<git::Repository> {
    if !has_repository(access) {
        return Err(Error::not_found("Repository"));
    }
    Ok(open(backend, access))
}

/// The repository of a project, whatever its settings.
pub(in crate::services) fn open(backend: &Backend, access: &ProjectAccess) -> git::Repository {
    let id = RepositoryId::of_project(access.project.id);
    backend.repositories.repository(&id)
}

/// What the default branch of a project stands at; nothing where there is no such branch.
pub(in crate::services) async fn tip(
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
