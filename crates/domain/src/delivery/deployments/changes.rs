//! Creates and updates deployments.

use std::borrow::Cow;
use std::collections::BTreeMap;

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, DatabaseTransaction, EntityTrait, IntoActiveModel,
    PaginatorTrait, QueryFilter,
};
use storage::entities::deployments::{self, ActiveModel, Column, DeploymentStatus, Entity, Model};
use storage::entities::iid_counters::{self, IidKind};
use storage::entities::{Scope, ci_jobs, now, pipelines};

use super::{DeploymentDetail, detail, not_found};
use crate::code::repository_access;
use crate::delivery::access::check_can_create_deployments;
use crate::delivery::deployments::{job_status, merge_request_links};
use crate::delivery::{environment_rows, variables};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::spaces::projects;

/// Minimum length of an abbreviated commit ID.
const MIN_ID_LENGTH: usize = 7;

/// Attributes of a new deployment.
#[derive(Debug, Clone)]
pub struct NewDeployment {
    /// Name of the environment.
    pub environment: String,
    /// ID of the commit, full or abbreviated.
    pub sha: String,
    /// Name of the branch or tag.
    pub ref_name: String,
    /// Whether the ref is a tag.
    pub tag: bool,
    /// Status of the deployment. The status of its job takes precedence.
    pub status: DeploymentStatus,
    /// ID of the job that deploys.
    pub job_id: Option<i64>,
}

/// Records a deployment of a commit to an environment, which is created if needed.
///
/// # Errors
/// Returns `Error::InvalidAttributes` if an attribute is invalid or references a missing resource. Fails like
/// [`check_can_create_deployments`].
pub async fn create(
    backend: &Backend,
    access: &ProjectAccess,
    new: NewDeployment,
) -> Result<DeploymentDetail> {
    check_can_create_deployments(access)?;
    let sha = check(backend, access, &new).await?;
    let user = access.caller.signed_in()?;
    let project_id = access.project.id;
    let deployment = backend
        .database
        .transaction(async |transaction| {
            projects::lock_for_insert(transaction, project_id).await?;
            let status = match new.job_id {
                Some(id) => job_status::status_of(job(transaction, project_id, id, &sha).await?.status),
                None => new.status,
            };
            let environment = environment_rows::ensure(transaction, project_id, new.environment).await?;
            let scope = Scope::Project(project_id);
            let at = now();
            let row = ActiveModel {
                project_id: Set(project_id),
                environment_id: Set(environment.id),
                iid: Set(iid_counters::next(transaction, scope, IidKind::Deployments).await?),
                ref_name: Set(new.ref_name),
                sha: Set(sha),
                tag: Set(new.tag),
                status: Set(status),
                user_id: Set(Some(user.id)),
                job_id: Set(new.job_id),
                finished_at: Set(status.is_finished().then_some(at)),
                created_at: Set(at),
                updated_at: Set(at),
                ..Default::default()
            };
            let deployment = row.insert(transaction).await?;
            merge_request_links::enqueue(transaction, &deployment).await?;
            Ok::<_, Error>(deployment)
        })
        .await?;
    detail(backend, access, deployment).await
}

/// Updates the status of a deployment.
///
/// # Errors
/// Returns `Error::NotFound` if the deployment does not exist. Returns `Error::Forbidden` if it belongs to a
/// job. Fails like [`check_can_create_deployments`].
pub async fn update(
    backend: &Backend,
    access: &ProjectAccess,
    id: i64,
    status: DeploymentStatus,
) -> Result<DeploymentDetail> {
    check_can_create_deployments(access)?;
    let project_id = access.project.id;
    let changed = backend
        .database
        .transaction(async |transaction| {
            projects::lock_for_insert(transaction, project_id).await?;
            let found = deployments::lock(transaction, project_id, id).await?;
            let found = found.ok_or_else(not_found)?;
            if found.job_id.is_some() {
                let text = "Deployments of jobs cannot be changed through the API";
                return Err(Error::forbidden_because(text));
            }
            set_status(transaction, found, status).await
        })
        .await?;
    detail(backend, access, changed).await
}

/// Sets the status of a locked deployment, if it differs.
///
/// # Errors
/// Returns an error if the database fails.
pub(super) async fn set_status(
    transaction: &DatabaseTransaction,
    deployment: Model,
    status: DeploymentStatus,
) -> Result<Model> {
    if deployment.status == status {
        return Ok(deployment);
    }
    let at = now();
    let mut row = deployment.into_active_model();
    row.status = Set(status);
    row.finished_at = Set(status.is_finished().then_some(at));
    row.updated_at = Set(at);
    let after = row.update(transaction).await?;
    merge_request_links::enqueue(transaction, &after).await?;
    Ok(after)
}

/// Checks all rules and reports all violations. Returns the full commit ID.
async fn check(backend: &Backend, access: &ProjectAccess, new: &NewDeployment) -> Result<String> {
    let mut errors: BTreeMap<Cow<'static, str>, Vec<Cow<'static, str>>> = BTreeMap::new();
    let texts = variables::faults_of_environment(&new.environment);
    if !texts.is_empty() {
        errors.insert("name".into(), texts);
    }
    let is_id = new.sha.len() >= MIN_ID_LENGTH && new.sha.bytes().all(|byte| byte.is_ascii_hexdigit());
    let commit = match is_id {
        true => commit_of(backend, access, &new.sha).await?,
        false => None,
    };
    if commit.is_none() {
        errors.insert("sha".into(), vec!["The commit does not exist".into()]);
    }
    if commit_of(backend, access, &new.ref_name).await?.is_none() {
        errors.insert("ref".into(), vec!["The branch or tag does not exist".into()]);
    }
    match commit {
        Some(commit) if errors.is_empty() => Ok(commit.to_string()),
        _ => Err(Error::InvalidAttributes(errors)),
    }
}

/// Returns the commit of a revision, if it exists.
async fn commit_of(backend: &Backend, access: &ProjectAccess, revision: &str) -> Result<Option<git::Oid>> {
    match repository_access::open(backend, access)
        .resolve_commit(revision)
        .await
    {
        Ok(commit) => Ok(Some(commit)),
        Err(git::Error::RevisionNotFound | git::Error::RepositoryMissing) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns a job of the project for a commit that has no deployment yet. The caller has locked the project.
async fn job(
    transaction: &DatabaseTransaction,
    project_id: i64,
    id: i64,
    sha: &str,
) -> Result<ci_jobs::Model> {
    let found = ci_jobs::Entity::find_by_id(id)
        .filter(ci_jobs::Column::ProjectId.eq(project_id))
        .find_also_related(pipelines::Entity)
        .one(transaction)
        .await?;
    let Some((job, Some(_))) = found.filter(|(_, of)| of.as_ref().is_some_and(|of| of.sha == sha)) else {
        return Err(Error::attribute(
            "job_id",
            "must be a job of this project for the given commit",
        ));
    };
    let same = Entity::find().filter(Column::JobId.eq(id));
    match same.count(transaction).await? {
        0 => Ok(job),
        _ => Err(Error::attribute("job_id", "has already been taken")),
    }
}
