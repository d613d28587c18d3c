//! Deployments of jobs, whose status follows the job.

use std::collections::HashMap;

use sea_orm::sea_query::{CaseStatement, Expr};
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, QuerySelect};
use storage::entities::deployments::{Column, DeploymentStatus, Entity};
use storage::entities::pipelines::PipelineStatus as JobStatus;
use storage::entities::{ci_jobs, now};

use super::changes::set_status;
use crate::kernel::error::Result;

/// Updates the deployment of a job in the transaction that changes the job. The caller has locked the
/// project.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn update_from_job(transaction: &DatabaseTransaction, job: &ci_jobs::Model) -> Result<()> {
    let found = Entity::find()
        .filter(Column::JobId.eq(job.id))
        .one(transaction)
        .await?;
    if let Some(deployment) = found {
        set_status(transaction, deployment, status_of(job.status)).await?;
    }
    Ok(())
}

/// Sets the status of the deployments of jobs, as [`update_from_job`]. Must not be called with `Success`, because
/// `set_status` also enqueues the links of merge requests.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn update_from_jobs(
    transaction: &DatabaseTransaction,
    jobs: &[ci_jobs::Model],
    status: JobStatus,
) -> Result<()> {
    let (status, at) = (status_of(status), now());
    debug_assert!(status != DeploymentStatus::Success);
    Entity::update_many()
        .col_expr(Column::Status, Expr::value(status))
        .col_expr(
            Column::FinishedAt,
            Expr::value(status.is_finished().then_some(at)),
        )
        .col_expr(Column::UpdatedAt, Expr::value(at))
        .filter(Column::JobId.is_in(jobs.iter().map(|job| job.id)))
        .filter(Column::Status.ne(status))
        .exec(transaction)
        .await?;
    Ok(())
}

/// Moves the deployment of a job to the job that replaces it. A successful deployment stays.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn replace_job(
    transaction: &DatabaseTransaction,
    old_job: i64,
    job: &ci_jobs::Model,
) -> Result<()> {
    Entity::update_many()
        .col_expr(Column::JobId, Expr::value(job.id))
        .filter(Column::JobId.eq(old_job))
        .filter(Column::Status.ne(DeploymentStatus::Success))
        .exec(transaction)
        .await?;
    Ok(())
}

/// Like [`replace_job`], for the IDs of jobs and of the jobs that replace them.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn replace_jobs(
    transaction: &DatabaseTransaction,
    replacements: &HashMap<i64, i64>,
) -> Result<()> {
    let deployed: Vec<i64> = Entity::find()
        .select_only()
        .column(Column::JobId)
        .filter(Column::JobId.is_in(replacements.keys().copied()))
        .filter(Column::Status.ne(DeploymentStatus::Success))
        .into_tuple()
        .all(transaction)
        .await?;
    if deployed.is_empty() {
        return Ok(());
    }
    let case = deployed.iter().fold(CaseStatement::new(), |case, id| {
        case.case(Column::JobId.eq(*id), replacements.get(id).copied())
    });
    Entity::update_many()
        .col_expr(Column::JobId, case.finally(Expr::col(Column::JobId)).into())
        .filter(Column::JobId.is_in(deployed.iter().copied()))
        .filter(Column::Status.ne(DeploymentStatus::Success))
        .exec(transaction)
        .await?;
    Ok(())
}

/// Returns the status of the deployment of a job with this status.
pub(super) fn status_of(status: JobStatus) -> DeploymentStatus {
    match status {
        JobStatus::Created
        | JobStatus::WaitingForResource
        | JobStatus::Preparing
        | JobStatus::Pending
        | JobStatus::Manual
        | JobStatus::Scheduled => DeploymentStatus::Created,
        JobStatus::Running => DeploymentStatus::Running,
        JobStatus::Success => DeploymentStatus::Success,
        JobStatus::Failed => DeploymentStatus::Failed,
        JobStatus::Canceled | JobStatus::Skipped => DeploymentStatus::Canceled,
    }
}
