//! Housekeeping and size of the repository of a project.

use git::{ByteStream, RepositoryId};
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use storage::entities::projects;
use storage::jobs::{self, Job};

use crate::code::jobs::maintain_repository::MaintainRepository;
use crate::code::jobs::prune_repository::PruneRepository;
use crate::code::repository_access;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::spaces::projects::lock_for_insert;

/// A task that optimizes a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HousekeepingTask {
    /// Combines objects into packs if there are many.
    Eager,
    /// Writes one pack and deletes old unreachable objects.
    Prune,
}

/// Schedules a task.
///
/// # Errors
/// Returns `Conflict` if the task waits or runs already, and `NotFound` if the project was deleted.
pub async fn start_housekeeping(
    backend: &Backend,
    access: &ProjectAccess,
    task: HousekeepingTask,
) -> Result<()> {
    let project_id = access.project.id;
    match task {
        HousekeepingTask::Eager => schedule(backend, project_id, &MaintainRepository { project_id }).await,
        HousekeepingTask::Prune => schedule(backend, project_id, &PruneRepository { project_id }).await,
    }
}

async fn schedule<J: Job + Sync>(backend: &Backend, project_id: i64, job: &J) -> Result<()> {
    backend
        .database
        .transaction(async |transaction| {
            // Two requests cannot both find no job.
            lock_for_insert(transaction, project_id).await?;
            if jobs::is_scheduled(transaction, job).await? {
                return Err(Error::Conflict(
                    "Housekeeping of this project is already in progress".into(),
                ));
            }
            jobs::enqueue(transaction, job).await.map_err(Error::internal)
        })
        .await
}

/// Measures the repository of a project and stores its size.
///
/// # Errors
/// Returns an error if the repository cannot be read or the database fails.
pub async fn update_repository_size(backend: &Backend, access: &ProjectAccess) -> Result<()> {
    let project_id = access.project.id;
    let size = backend
        .repositories
        .size(&RepositoryId::of_project(project_id))
        .await?;
    let size = i64::try_from(size).unwrap_or(i64::MAX);
    projects::Entity::update_many()
        .col_expr(projects::Column::RepositorySize, Expr::value(size))
        .filter(projects::Column::Id.eq(project_id))
        .filter(projects::Column::RepositorySize.ne(size))
        .exec(backend.database.write())
        .await?;
    Ok(())
}

/// Streams a tar archive with the repository of a project.
///
/// # Errors
/// Returns `NotFound` if the project has no repository, and `Busy` if too many transfers are in progress.
pub async fn snapshot(backend: &Backend, access: &ProjectAccess) -> Result<ByteStream> {
    Ok(repository_access::open(backend, access).snapshot().await?)
}

/// Returns the directory of the repository of a project, below the directory of all repositories.
#[must_use]
pub fn disk_path(access: &ProjectAccess) -> String {
    RepositoryId::of_project(access.project.id).relative_path()
}
