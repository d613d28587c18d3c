//! Sets `HEAD` of a repository to the default branch of its project.

use git::{Repository, RepositoryId};
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use serde::{Deserialize, Serialize};
use storage::entities::{now, projects};
use storage::jobs::{self, Job, JobFailure};

use crate::code::jobs::refresh_closing_issues::RefreshClosingIssues;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};

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

/// Sets `HEAD` of the repository to the default branch in the row of the project. If the default branch was deleted
/// before this change, another branch replaces it and is returned.
///
/// # Errors
/// Returns `Conflict` if the repository is locked, and an error if a database query or a Git operation fails.
pub(crate) async fn set_head(backend: &Backend, job: &SetHead) -> Result<Option<String>> {
    let repository = backend
        .repositories
        .repository(&RepositoryId::of_project(job.project_id));
    // The row is read under the lock. Of two concurrent changes, the one that was committed last determines HEAD.
    // Branches are also deleted under the lock, by rules that are read under it.
    let locked = repository.lock().await?;
    let Some(project) = project(backend, job.project_id).await? else {
        return Ok(None);
    };
    let mut replacement = None;
    let branch = match project.default_branch {
        Some(branch) => match replacement_of(&repository, &branch).await? {
            Some(other) => {
                if !replace(backend, job.project_id, &branch, &other).await? {
                    // The default branch was changed again. The request or the job of that change sets HEAD.
                    return Ok(None);
                }
                replacement = Some(other.clone());
                other
            }
            None => branch,
        },
        None if repository.is_empty().await? => job.branch.clone(),
        // A push that is in progress sets HEAD and the default branch.
        None => return Ok(None),
    };
    locked.set_default_branch(&branch).await?;
    backend.database.invalidate_on_all_nodes().await?;
    Ok(replacement)
}

/// Returns the branch that replaces a default branch, or `None` if the default branch exists or the repository is
/// empty.
async fn replacement_of(repository: &Repository, default_branch: &str) -> Result<Option<String>> {
    match repository.branch(default_branch).await {
        Ok(_) => Ok(None),
        Err(git::Error::BranchNotFound) => Ok(repository.preferred_branch().await?),
        Err(error) => Err(error.into()),
    }
}

/// Replaces the default branch in the row of the project. Returns false if the row has another default branch.
async fn replace(backend: &Backend, project_id: i64, deleted: &str, branch: &str) -> Result<bool> {
    use projects::Column;
    backend
        .database
        .transaction(async |transaction| {
            let replaced = projects::Entity::update_many()
                .col_expr(Column::DefaultBranch, Expr::value(branch))
                .col_expr(Column::UpdatedAt, Expr::value(now()))
                .filter(Column::Id.eq(project_id))
                .filter(Column::DefaultBranch.eq(deleted))
                .exec(transaction)
                .await?;
            if replaced.rows_affected == 0 {
                return Ok(false);
            }
            tracing::warn!(
                project = project_id,
                deleted,
                branch,
                "replaced a deleted default branch"
            );
            jobs::enqueue(transaction, &RefreshClosingIssues { project_id })
                .await
                .map_err(Error::internal)?;
            Ok(true)
        })
        .await
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
