//! Deployments of projects. [`changes`] creates and updates them, [`listing`] lists them, and [`job_status`]
//! synchronizes them with jobs. [`merge_request_links`] finds the merge requests that they contain.
//!
//! Every change locks the project first.

mod changes;
mod job_status;
mod listing;
mod merge_request_links;

use std::collections::HashMap;

use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder};

pub use crate::delivery::deployments::merge_request_links::{link_merge_requests, run_job};
pub use changes::{NewDeployment, create, update};
pub(crate) use job_status::{replace_job, replace_jobs, update_from_job, update_from_jobs};
pub use listing::{DeploymentFilter, DeploymentOrder, list};
pub(crate) use merge_request_links::to_production_part;

use git::Oid;
use storage::entities::deployments::{self, Column, DeploymentStatus, Model};
use storage::entities::environments::EnvironmentSummary;
use storage::entities::related_rows::RelatedRows;
use storage::entities::users::UserSummary;
use storage::entities::{ci_jobs, pipelines};

use crate::code::repository_access;
use crate::delivery::access::{can_read_pipelines, check_can_read_deployments};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::policy::Role;

/// A deployment with its related rows.
#[derive(Debug, Clone)]
pub struct DeploymentDetail {
    /// The deployment.
    pub deployment: Model,
    /// Its environment.
    pub environment: EnvironmentSummary,
    /// The user who created it, unless deleted.
    pub user: Option<UserSummary>,
    /// The job that deploys it.
    pub job: Option<DeploymentJob>,
}

/// A job that deploys, with its related rows.
#[derive(Debug, Clone)]
pub struct DeploymentJob {
    /// The job.
    pub job: ci_jobs::Model,
    /// Its pipeline.
    pub pipeline: pipelines::Model,
    /// The user who reported it, unless deleted.
    pub user: Option<UserSummary>,
    /// Its commit, unless the commit does not exist any more.
    pub commit: Option<git::Commit>,
}

/// Returns whether the caller may read the deployments of the project.
#[must_use]
pub fn can_read(access: &ProjectAccess) -> bool {
    can_read_pipelines(access) && access.can_use_environments() && access.has_role(Role::Reporter)
}

/// Returns one deployment of a project.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist or belongs to another project. Fails like
/// [`check_can_read_deployments`].
pub async fn get(backend: &Backend, access: &ProjectAccess, id: i64) -> Result<DeploymentDetail> {
    let found = find(backend, access, id).await?;
    detail(backend, access, found).await
}

/// Returns the row of a deployment, if the caller may read it.
///
/// # Errors
/// Fails like [`get`].
pub async fn find(backend: &Backend, access: &ProjectAccess, id: i64) -> Result<Model> {
    check_can_read_deployments(access)?;
    let found = deployments::of_project(access.project.id).filter(Column::Id.eq(id));
    let found = found.one(backend.database.read()).await?;
    found.ok_or_else(not_found)
}

/// Returns the last successful deployment to an environment.
///
/// # Errors
/// Returns an error if the database or the repository fails.
pub(crate) async fn last_to(
    backend: &Backend,
    access: &ProjectAccess,
    environment_id: i64,
) -> Result<Option<DeploymentDetail>> {
    let last = deployments::Entity::find()
        .filter(Column::EnvironmentId.eq(environment_id))
        .filter(Column::Status.eq(DeploymentStatus::Success))
        .order_by_desc(Column::Id)
        .one(backend.database.read())
        .await?;
    match last {
        Some(last) => Ok(Some(detail(backend, access, last).await?)),
        None => Ok(None),
    }
}

/// Loads the related rows of one deployment.
async fn detail(backend: &Backend, access: &ProjectAccess, found: Model) -> Result<DeploymentDetail> {
    let rows = load_details(backend, access, vec![found]).await?;
    rows.into_iter().next().ok_or_else(not_found)
}

/// Loads the related rows of a whole page. Rows deleted meanwhile are left out.
async fn load_details(
    backend: &Backend,
    access: &ProjectAccess,
    found: Vec<Model>,
) -> Result<Vec<DeploymentDetail>> {
    let db = backend.database.read();
    let database = db.get_database_backend();
    let jobs = jobs_of(db, &found).await?;
    let environment_ids: Vec<i64> = found.iter().map(|row| row.environment_id).collect();
    let makers = found.iter().filter_map(|row| row.user_id);
    let makers = makers.chain(jobs.values().filter_map(|(job, _)| job.user_id));
    let mut related = RelatedRows::default();
    let environments = related.add(EnvironmentSummary::part(database, &environment_ids));
    let users = related.add(UserSummary::part(database, makers));
    let mut rows = related.load(db).await?;
    let environments = rows.take_by_owner(environments, |row| Ok(EnvironmentSummary::read(row)))?;
    let users = rows.take_by_owner(users, UserSummary::read)?;
    let shas = jobs.values().map(|(_, pipeline)| pipeline.sha.as_str());
    let commits = commits_of(backend, access, shas).await?;
    let rows = found.into_iter().filter_map(|deployment| {
        let find_user = |id: Option<i64>| id.and_then(|id| users.get(&id).cloned());
        let job = deployment.job_id.and_then(|id| {
            let (job, pipeline) = jobs.get(&id)?;
            Some(DeploymentJob {
                job: job.clone(),
                user: find_user(job.user_id),
                commit: commits.get(&pipeline.sha).cloned(),
                pipeline: pipeline.clone(),
            })
        });
        Some(DeploymentDetail {
            environment: environments.get(&deployment.environment_id)?.clone(),
            user: find_user(deployment.user_id),
            job,
            deployment,
        })
    });
    Ok(rows.collect())
}

/// Returns the jobs of deployments with their pipelines, by ID.
async fn jobs_of(
    db: &impl ConnectionTrait,
    found: &[Model],
) -> Result<HashMap<i64, (ci_jobs::Model, pipelines::Model)>> {
    let ids: Vec<i64> = found.iter().filter_map(|row| row.job_id).collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let jobs = ci_jobs::Entity::find()
        .find_also_related(pipelines::Entity)
        .filter(ci_jobs::Column::Id.is_in(ids));
    let jobs = jobs.all(db).await?.into_iter();
    let with_pipeline = jobs.filter_map(|(job, pipeline)| Some((job.id, (job, pipeline?))));
    Ok(with_pipeline.collect())
}

/// Returns the existing commits among `shas`, by ID.
async fn commits_of(
    backend: &Backend,
    access: &ProjectAccess,
    shas: impl Iterator<Item = &str>,
) -> Result<HashMap<String, git::Commit>> {
    let ids: Vec<Oid> = shas.filter_map(|sha| sha.parse().ok()).collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    match repository_access::open(backend, access)
        .existing_commits(ids)
        .await
    {
        Ok(found) => Ok(found
            .into_iter()
            .map(|commit| (commit.id.to_string(), commit))
            .collect()),
        Err(git::Error::RepositoryMissing) => Ok(HashMap::new()),
        Err(error) => Err(error.into()),
    }
}

fn not_found() -> Error {
    Error::not_found("")
}
