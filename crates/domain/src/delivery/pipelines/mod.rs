//! Pipelines of projects. A pipeline is a record: a request, a trigger or a schedule creates it, or a commit
//! status of an external system. Its status follows from its jobs ([`status`]).
//!
//! This module runs no jobs. A future executor will read the configuration where [`create()`] inserts a
//! pipeline and insert its jobs into `ci_jobs`. It will call [`status::update_from_jobs`] after each change of a job,
//! as `delivery::commit_statuses` does.
//!
//! A change of a pipeline or its jobs locks the project first, then the pipeline.

mod create;
pub mod events;
mod listing;
pub(crate) mod status;
mod variables;

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait,
    IntoActiveModel, QueryFilter,
};

pub use crate::delivery::pipelines::create::create;
pub(crate) use create::{NewPipeline, PipelineRef, check_ref, insert, ref_not_found, resolve_ref};
pub use listing::{PipelineFilter, PipelineOrder, PipelineScope, list};
pub(crate) use variables::{MAX_VARIABLES, check as check_variable, check_all as check_variables, decrypt};
pub use variables::{NewVariable, Variable, list as list_variables};

use storage::entities::pipelines::{self, Entity, Model, PipelineStatus};
use storage::entities::{ci_jobs, now, users};

use crate::delivery::access::{can_read_pipelines, check_can_create, check_can_read};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::preconditions;
use crate::spaces::projects;

/// A pipeline with its user.
#[derive(Debug, Clone)]
pub struct PipelineDetail {
    /// The pipeline.
    pub pipeline: Model,
    /// The user who created it; `None` if the user was deleted.
    pub user: Option<users::Model>,
}

/// Returns a pipeline of a project with its user.
///
/// # Errors
/// Returns `NotFound` if the pipeline does not exist, and `Forbidden` as [`check_can_read`].
pub async fn get(backend: &Backend, access: &ProjectAccess, id: i64) -> Result<PipelineDetail> {
    check_can_read(access)?;
    let db = backend.database.read();
    let pipeline = find(db, access.project.id, id).await?;
    with_user(db, pipeline).await
}

/// Returns the newest pipeline of a branch or tag, by default the default branch, for its current commit.
///
/// # Errors
/// Returns `NotFound` if the ref does not exist or the commit has no pipeline of the ref, and `Forbidden` as
/// [`check_can_read`].
pub async fn latest(
    backend: &Backend,
    access: &ProjectAccess,
    ref_name: Option<&str>,
) -> Result<PipelineDetail> {
    check_can_read(access)?;
    let missing = || Error::not_found("Pipeline");
    let name = ref_name.filter(|name| !name.trim().is_empty());
    let name = name
        .or(access.project.default_branch.as_deref())
        .ok_or_else(missing)?;
    let found = resolve_ref(backend, access, name).await?.ok_or_else(missing)?;
    let db = backend.database.read();
    let newest = pipelines::newest(db, access.project.id, &found.sha, Some(found.branch_or_tag())).await?;
    with_user(db, newest.ok_or_else(missing)?).await
}

/// Returns a pipeline of a project.
///
/// # Errors
/// Returns `NotFound` if the pipeline does not exist.
pub(crate) async fn find(db: &impl ConnectionTrait, project_id: i64, id: i64) -> Result<Model> {
    let found = pipelines::of_project(project_id).filter(pipelines::Column::Id.eq(id));
    found.one(db).await?.ok_or_else(not_found)
}

/// Adds the user of a pipeline.
///
/// # Errors
/// Returns an error if a database query fails.
pub(crate) async fn with_user(db: &impl ConnectionTrait, pipeline: Model) -> Result<PipelineDetail> {
    let user = match pipeline.user_id {
        Some(id) => users::Entity::find_by_id(id).one(db).await?,
        None => None,
    };
    Ok(PipelineDetail { pipeline, user })
}

/// Returns the newest pipeline of a commit, if it exists and is visible to the caller.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn newest_of_commit(backend: &Backend, access: &ProjectAccess, sha: &str) -> Result<Option<Model>> {
    if !can_read_pipelines(access) {
        return Ok(None);
    }
    let db = backend.database.read();
    Ok(pipelines::newest(db, access.project.id, sha, None).await?)
}

/// Returns the newest pipelines of the commits of a page that are visible to the caller, in one statement.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn newest_of_commits(
    backend: &Backend,
    access: &ProjectAccess,
    shas: Vec<String>,
) -> Result<Vec<Model>> {
    if !can_read_pipelines(access) {
        return Ok(Vec::new());
    }
    let db = backend.database.read();
    Ok(pipelines::newest_of(db, access.project.id, shas).await?)
}

/// Deletes a pipeline with its variables and jobs.
///
/// # Errors
/// Returns `NotFound` if the pipeline does not exist, or `PreconditionFailed` if it was modified after the
/// given date.
pub async fn delete(
    backend: &Backend,
    access: &ProjectAccess,
    id: i64,
    unmodified_since: Option<&str>,
) -> Result<()> {
    let project_id = access.project.id;
    backend
        .database
        .transaction(async |transaction| {
            let pipeline = lock(transaction, project_id, id).await?;
            preconditions::check_unmodified_since(unmodified_since, pipeline.updated_at)?;
            Entity::delete_by_id(id).exec(transaction).await?;
            status::enqueue_waiting_merges(transaction, &pipeline).await
        })
        .await
}

/// Cancels a pipeline and its unfinished jobs.
///
/// # Errors
/// Returns `NotFound` if the pipeline does not exist. Returns `Forbidden` as [`check_can_create`], and for a
/// protected branch that the caller may neither push to nor merge into.
pub async fn cancel(backend: &Backend, access: &ProjectAccess, id: i64) -> Result<PipelineDetail> {
    change(backend, access, id, async |transaction, pipeline, user| {
        let jobs = ci_jobs::current(transaction, pipeline.id).await?;
        if jobs.is_empty() && !pipeline.status.is_finished() {
            return status::set_status(transaction, pipeline, PipelineStatus::Canceled, Some(user)).await;
        }
        let at = now();
        for job in jobs.into_iter().filter(|job| !job.status.is_finished()) {
            let mut row = job.into_active_model();
            row.status = Set(PipelineStatus::Canceled);
            row.finished_at = Set(Some(at));
            row.updated_at = Set(at);
            let job = row.update(transaction).await?;
            status::job_changed(transaction, &pipeline, &job, None, Some(user)).await?;
        }
        status::update_from_jobs(transaction, pipeline, Some(user)).await
    })
    .await
}

/// Retries the failed and canceled jobs of a pipeline, or a canceled pipeline without jobs.
///
/// # Errors
/// Returns the errors of [`cancel`].
pub async fn retry(backend: &Backend, access: &ProjectAccess, id: i64) -> Result<PipelineDetail> {
    change(backend, access, id, async |transaction, pipeline, user| {
        let jobs = ci_jobs::current(transaction, pipeline.id).await?;
        let again =
            |status: PipelineStatus| matches!(status, PipelineStatus::Failed | PipelineStatus::Canceled);
        if jobs.is_empty() && again(pipeline.status) {
            return status::set_status(transaction, pipeline, PipelineStatus::Pending, Some(user)).await;
        }
        for job in jobs.into_iter().filter(|job| again(job.status)) {
            let at = now();
            let row = ci_jobs::ActiveModel {
                project_id: Set(job.project_id),
                pipeline_id: Set(job.pipeline_id),
                name: Set(job.name.clone()),
                stage: Set(job.stage.clone()),
                status: Set(PipelineStatus::Pending),
                description: Set(job.description.clone()),
                target_url: Set(job.target_url.clone()),
                allow_failure: Set(job.allow_failure),
                retried: Set(false),
                user_id: Set(Some(user)),
                created_at: Set(at),
                updated_at: Set(at),
                ..Default::default()
            };
            let before = Some(job.id);
            let mut old = job.into_active_model();
            old.retried = Set(true);
            old.updated_at = Set(now());
            old.update(transaction).await?;
            let job = row.insert(transaction).await?;
            status::job_changed(transaction, &pipeline, &job, before, Some(user)).await?;
        }
        status::update_from_jobs(transaction, pipeline, Some(user)).await
    })
    .await
}

/// Changes a pipeline as the caller.
async fn change(
    backend: &Backend,
    access: &ProjectAccess,
    id: i64,
    work: impl AsyncFnOnce(&DatabaseTransaction, Model, i64) -> Result<Model>,
) -> Result<PipelineDetail> {
    check_can_create(access)?;
    let (project_id, user) = (access.project.id, access.caller.signed_in()?.id);
    let found = find(backend.database.read(), project_id, id).await?;
    let reference = PipelineRef::of(&found);
    check_ref(backend, access, &reference).await?;
    let changed = backend
        .database
        .transaction(async |transaction| {
            let pipeline = lock(transaction, project_id, id).await?;
            work(transaction, pipeline, user).await
        })
        .await?;
    with_user(backend.database.read(), changed).await
}

/// Locks the project and then the pipeline.
async fn lock(transaction: &DatabaseTransaction, project_id: i64, id: i64) -> Result<Model> {
    projects::lock_for_insert(transaction, project_id).await?;
    let found = pipelines::lock(transaction, project_id, id).await?;
    found.ok_or_else(not_found)
}

fn not_found() -> Error {
    Error::not_found("")
}
