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

use std::collections::HashMap;

use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, QueryFilter,
};

pub use crate::delivery::pipelines::create::create;
pub(crate) use create::{NewPipeline, PipelineRef, check_ref, insert, ref_not_found, resolve_ref};
pub use listing::{PipelineFilter, PipelineOrder, PipelineScope, list};
pub(crate) use variables::{MAX_VARIABLES, check as check_variable, check_all as check_variables, decrypt};
pub use variables::{NewVariable, Variable, list as list_variables};

use storage::entities::pipelines::{self, Entity, Model, PipelineStatus};
use storage::entities::{ci_jobs, now, users};

use crate::delivery::access::{can_read_pipelines, check_can_create, check_can_read};
use crate::delivery::deployments;
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
        let unfinished: Vec<ci_jobs::Model> =
            jobs.into_iter().filter(|job| !job.status.is_finished()).collect();
        cancel_jobs(transaction, &pipeline, unfinished, user).await?;
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
        let stopped: Vec<ci_jobs::Model> = jobs.into_iter().filter(|job| again(job.status)).collect();
        retry_jobs(transaction, &pipeline, stopped, user).await?;
        status::update_from_jobs(transaction, pipeline, Some(user)).await
    })
    .await
}

/// Cancels jobs of a locked pipeline in one statement. Events and deliveries are inserted in batches.
async fn cancel_jobs(
    transaction: &DatabaseTransaction,
    pipeline: &Model,
    mut jobs: Vec<ci_jobs::Model>,
    user: i64,
) -> Result<()> {
    if jobs.is_empty() {
        return Ok(());
    }
    let at = now();
    for job in &mut jobs {
        job.status = PipelineStatus::Canceled;
        job.finished_at = Some(at);
        job.updated_at = at;
    }
    ci_jobs::Entity::update_many()
        .col_expr(ci_jobs::Column::Status, Expr::value(PipelineStatus::Canceled))
        .col_expr(ci_jobs::Column::FinishedAt, Expr::value(at))
        .col_expr(ci_jobs::Column::UpdatedAt, Expr::value(at))
        .filter(ci_jobs::Column::Id.is_in(jobs.iter().map(|job| job.id)))
        .exec(transaction)
        .await?;
    status::jobs_changed(transaction, pipeline, &jobs, PipelineStatus::Canceled, user).await
}

/// Replaces jobs of a locked pipeline with pending jobs. Jobs and deployments change in one statement each. Events and
/// deliveries are inserted in batches.
async fn retry_jobs(
    transaction: &DatabaseTransaction,
    pipeline: &Model,
    jobs: Vec<ci_jobs::Model>,
    user: i64,
) -> Result<()> {
    if jobs.is_empty() {
        return Ok(());
    }
    let at = now();
    let old: Vec<i64> = jobs.iter().map(|job| job.id).collect();
    ci_jobs::Entity::update_many()
        .col_expr(ci_jobs::Column::Retried, Expr::value(true))
        .col_expr(ci_jobs::Column::UpdatedAt, Expr::value(at))
        .filter(ci_jobs::Column::Id.is_in(old.iter().copied()))
        .exec(transaction)
        .await?;
    let rows = jobs.into_iter().map(|job| ci_jobs::ActiveModel {
        project_id: Set(job.project_id),
        pipeline_id: Set(job.pipeline_id),
        name: Set(job.name),
        stage: Set(job.stage),
        status: Set(PipelineStatus::Pending),
        description: Set(job.description),
        target_url: Set(job.target_url),
        allow_failure: Set(job.allow_failure),
        retried: Set(false),
        user_id: Set(Some(user)),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    });
    let mut jobs = ci_jobs::Entity::insert_many(rows)
        .exec_with_returning(transaction)
        .await?;
    // The order of returned rows is not defined. The IDs ascend in the order of the inserted rows.
    jobs.sort_unstable_by_key(|job| job.id);
    let replacements: HashMap<i64, i64> = old.into_iter().zip(jobs.iter().map(|job| job.id)).collect();
    deployments::replace_jobs(transaction, &replacements).await?;
    status::delete_replaced_jobs(transaction, pipeline.id).await?;
    status::jobs_changed(transaction, pipeline, &jobs, PipelineStatus::Pending, user).await
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
