//! Deployments of jobs, whose status follows the job.

use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter};
use storage::entities::ci_jobs;
use storage::entities::deployments::{Column, DeploymentStatus, Entity};
use storage::entities::pipelines::PipelineStatus as JobStatus;

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
        set_status(transaction, deployment, status_of(job)).await?;
    }
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

/// Returns the status of the deployment of a job.
pub(super) fn status_of(job: &ci_jobs::Model) -> DeploymentStatus {
    match job.status {
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
