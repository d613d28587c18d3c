//! Maintains a repository after ref updates: commit-graph, packs and statistics.

use git::{Error, RepackExtent, RepositoryId};
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use serde::{Deserialize, Serialize};
use storage::entities::projects;
use storage::jobs::{Job, JobFailure};

use crate::code::code_analysis;
use crate::code::repository_access::commit_count;
use crate::kernel::Backend;

/// Maintains the repository of a project so that it stays fast to read.
#[derive(Debug, Serialize, Deserialize)]
pub struct MaintainRepository {
    /// The project.
    pub project_id: i64,
}

impl Job for MaintainRepository {
    const KIND: &'static str = "maintain_repository";
    const MAX_ATTEMPTS: u16 = 5;

    fn dedup_key(&self) -> Option<String> {
        Some(self.project_id.to_string())
    }
}

/// Runs the job. A deleted repository needs no maintenance.
///
/// # Errors
/// Returns an error if Git or the database fails; the job is then retried.
pub async fn run(backend: Backend, job: MaintainRepository) -> Result<(), JobFailure> {
    let id = RepositoryId::of_project(job.project_id);
    let repository = backend.repositories.repository(&id);
    // First, because a lock file that a killed program left makes the others fail.
    match repository.delete_abandoned_files().await {
        Err(Error::RepositoryMissing) => return Ok(()),
        outcome => outcome?,
    }
    maintain(&backend, job.project_id).await
}

/// Maintains a repository without abandoned files.
///
/// # Errors
/// Returns an error if Git or the database fails.
pub(super) async fn maintain(backend: &Backend, project_id: i64) -> Result<(), JobFailure> {
    let id = RepositoryId::of_project(project_id);
    let repository = backend.repositories.repository(&id);
    repository.write_commit_graph().await?;
    if repository.needs_repack().await? {
        repository.repack(RepackExtent::Geometric).await?;
    }
    let project = projects::not_deleted()
        .filter(projects::Column::Id.eq(project_id))
        .one(backend.database.read())
        .await?;
    let Some(project) = project else { return Ok(()) };
    let size = i64::try_from(backend.repositories.size(&id).await?).unwrap_or(i64::MAX);
    let commits = commit_count(backend, &project).await?;
    projects::Entity::update_many()
        .col_expr(projects::Column::RepositorySize, Expr::value(size))
        .col_expr(projects::Column::CommitCount, Expr::value(commits))
        .filter(projects::Column::Id.eq(project_id))
        .exec(backend.database.write())
        .await?;
    code_analysis::get_or_create(backend, &project).await?;
    Ok(())
}
