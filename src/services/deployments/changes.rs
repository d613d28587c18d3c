//! Deployments made and changed.

use std::borrow::Cow;
use std::collections::BTreeMap;

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, DatabaseTransaction, EntityTrait, IntoActiveModel,
    PaginatorTrait, QueryFilter,
};
use storage::entities::deployments::{self, ActiveModel, Column, Entity, Model, Status};
use storage::entities::iid_counters::{self, Subject};
use storage::entities::{Scope, ci_jobs, now, pipelines};

use super::{Row, following, missing, one, shipping};
use crate::error::{Error, Result};
use crate::services::access::ProjectAccess;
use crate::services::pipelines::refuse_maker;
use crate::services::projects;
use crate::services::{Backend, commits, environments, variables};

/// The fewest letters of an id by which a commit is named.
const SHORTEST_ID: usize = 7;

/// A deployment that is to be made.
#[derive(Debug, Clone)]
pub struct NewDeployment {
    /// The name of the environment.
    pub environment: String,
    /// The id of the commit.
    pub sha: String,
    /// What leads to it.
    pub ref_name: String,
    /// Whether that is a tag.
    pub tag: bool,
    /// What has become of it, unless a job tells.
    pub status: Status,
    /// The job that deploys.
    pub job_id: Option<i64>,
}

/// Records that a commit is deployed to an environment, which is made where there is none.
///
/// # Errors
/// 400 under each attribute that breaks a rule or names nothing, and 403 as [`refuse_maker`].
pub async fn create(backend: &Backend, access: &ProjectAccess, new: NewDeployment) -> Result<Row> {
    refuse_maker(access)?;
    let sha = check(backend, access, &new).await?;
    let user = access.caller.signed_in()?;
    let project_id = access.project.id;
    let made = backend
        .database
        .transaction(async |transaction| {
            projects::hold(transaction, project_id).await?;
            let status = match new.job_id {
                Some(id) => following::status_of(&job(transaction, project_id, id, &sha).await?),
                None => new.status,
            };
            let environment = environments::ensure(transaction, project_id, new.environment).await?;
            let scope = Scope::Project(project_id);
            let at = now();
            let row = ActiveModel {
                project_id: Set(project_id),
                environment_id: Set(environment.id),
                iid: Set(iid_counters::next(transaction, scope, Subject::Deployments).await?),
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
            let made = row.insert(transaction).await?;
            shipping::begin(transaction, &made).await?;
            Ok::<_, Error>(made)
        })
        .await?;
    one(backend, access, made).await
}

/// Gives a deployment another status, whichever it has.
///
/// # Errors
/// 404, and 403 for that of a job and as [`refuse_maker`].
pub async fn update(backend: &Backend, access: &ProjectAccess, id: i64, status: Status) -> Result<Row> {
    refuse_maker(access)?;
    let project_id = access.project.id;
    let changed = backend
        .database
        .transaction(async |transaction| {
            projects::hold(transaction, project_id).await?;
            let found = deployments::lock(transaction, project_id, id).await?;
            let found = found.ok_or_else(missing)?;
            if found.job_id.is_some() {
                let text = "Deployments of jobs cannot be changed through the API";
                return Err(Error::forbidden_because(text));
            }
            become_now(transaction, found, status).await
        })
        .await?;
    one(backend, access, changed).await
}

/// Gives a deployment, which is locked, another status; one that it has already changes nothing.
///
/// # Errors
/// Whatever the database reports.
pub(super) async fn become_now(
    transaction: &DatabaseTransaction,
    deployment: Model,
    status: Status,
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
    shipping::begin(transaction, &after).await?;
    Ok(after)
}

/// Refuses what breaks a rule or names nothing, all at once; gives the whole id of the commit.
async fn check(backend: &Backend, access: &ProjectAccess, new: &NewDeployment) -> Result<String> {
    let mut faults: BTreeMap<Cow<'static, str>, Vec<Cow<'static, str>>> = BTreeMap::new();
    let texts = variables::faults_of_environment(&new.environment);
    if !texts.is_empty() {
        faults.insert("name".into(), texts);
    }
    let is_id = new.sha.len() >= SHORTEST_ID && new.sha.bytes().all(|byte| byte.is_ascii_hexdigit());
    let commit = match is_id {
        true => commit_of(backend, access, &new.sha).await?,
        false => None,
    };
    if commit.is_none() {
        faults.insert("sha".into(), vec!["The commit does not exist".into()]);
    }
    if commit_of(backend, access, &new.ref_name).await?.is_none() {
        faults.insert("ref".into(), vec!["The branch or tag does not exist".into()]);
    }
    match commit {
        Some(commit) if faults.is_empty() => Ok(commit.to_string()),
        _ => Err(Error::InvalidAttributes(faults)),
    }
}

/// The commit that a revision leads to, if it does.
async fn commit_of(backend: &Backend, access: &ProjectAccess, revision: &str) -> Result<Option<git::Oid>> {
    match commits::open(backend, access).resolve_commit(revision).await {
        Ok(commit) => Ok(Some(commit)),
        Err(git::Error::RevisionNotFound | git::Error::RepositoryMissing) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A job of the project for a commit, of which there is no deployment yet; the project is held.
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
