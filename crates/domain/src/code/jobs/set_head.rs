//! Sets `HEAD` of a repository to the default branch of its project.

use git::RepositoryId;
use sea_orm::{ColumnTrait, QueryFilter};
use serde::{Deserialize, Serialize};
use storage::entities::projects;
use storage::jobs::{Job, JobFailure};

use crate::kernel::Backend;
use crate::kernel::error::Result;

/// Sets `HEAD` after a change of the default branch. The request that changes the default branch also sets `HEAD`; the
/// job does it if the server was killed in between.
#[derive(Debug, Serialize, Deserialize)]
pub struct SetHead {
    /// The project.
    pub project_id: i64,
    /// The branch for an empty repository, whose project has no default branch.
    pub branch: String,
}

impl Job for SetHead {
    const KIND: &'static str = "set_head";

    fn dedup_key(&self) -> Option<String> {
        Some(self.project_id.to_string())
    }
}

/// Sets `HEAD` of the repository to the default branch in the row of the project.
///
/// # Errors
/// Returns `Conflict` if the repository is locked, and an error if a database query or a Git operation fails.
pub(crate) async fn set_head(backend: &Backend, job: &SetHead) -> Result<()> {
    let repository = backend
        .repositories
        .repository(&RepositoryId::of_project(job.project_id));
    // The row is read under the lock. Of two concurrent changes, the one that was committed last determines HEAD.
    let locked = repository.lock().await?;
    let Some(project) = project(backend, job.project_id).await? else {
        return Ok(());
    };
    let branch = match project.default_branch {
        Some(branch) => branch,
        None if repository.is_empty().await? => job.branch.clone(),
        // A push that is in progress sets HEAD and the default branch.
        None => return Ok(()),
    };
    match locked.set_default_branch(&branch).await {
        Ok(()) => {
            backend.database.invalidate();
            Ok(())
        }
        // The branch was deleted concurrently.
        Err(git::Error::BranchNotFound) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

async fn project(backend: &Backend, project_id: i64) -> Result<Option<projects::Model>> {
    let project = projects::not_deleted().filter(projects::Column::Id.eq(project_id));
    Ok(project.one(backend.database.read()).await?)
}

/// Runs the job. A deleted project has no repository.
///
/// # Errors
/// Returns an error if the file system or the database fails; the job is then retried.
pub async fn run(backend: Backend, job: SetHead) -> Result<(), JobFailure> {
    if project(&backend, job.project_id).await?.is_some() {
        set_head(&backend, &job).await?;
    }
    Ok(())
}
