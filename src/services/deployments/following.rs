//! Deployments of jobs, which are what these are.

use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter};
use storage::entities::ci_jobs;
use storage::entities::deployments::{Column, Entity, Status};
use storage::entities::pipelines::Status as JobStatus;

use super::changes::become_now;
use crate::error::Result;

/// Brings the deployment of a job in step with it, in the transaction that changes the job; the project is held.
///
/// # Errors
/// Whatever the database reports.
pub(in crate::services) async fn follow(
    transaction: &DatabaseTransaction,
    job: &ci_jobs::Model,
) -> Result<()> {
    let found = Entity::find()
        .filter(Column::JobId.eq(job.id))
        .one(transaction)
        .await?;
    if let Some(deployment) = found {
        become_now(transaction, deployment, status_of(job)).await?;
    }
    Ok(())
}

/// Lets the deployment of a job follow the one that took the place of the job. What was deployed stays so.
///
/// # Errors
/// Whatever the database reports.
pub(in crate::services) async fn pass_on(
    transaction: &DatabaseTransaction,
    old_job: i64,
    job: &ci_jobs::Model,
) -> Result<()> {
    Entity::update_many()
        .col_expr(Column::JobId, Expr::value(job.id))
        .filter(Column::JobId.eq(old_job))
        .filter(Column::Status.ne(Status::Success))
        .exec(transaction)
        .await?;
    Ok(())
}

/// What a deployment is whose job is this.
pub(super) fn status_of(job: &ci_jobs::Model) -> Status {
    match job.status {
        JobStatus::Created
        | JobStatus::WaitingForResource
        | JobStatus::Preparing
        | JobStatus::Pending
        | JobStatus::Manual
        | JobStatus::Scheduled => Status::Created,
        JobStatus::Running => Status::Running,
        JobStatus::Success => Status::Success,
        JobStatus::Failed => Status::Failed,
        JobStatus::Canceled | JobStatus::Skipped => Status::Canceled,
    }
}
