//! Derives the status of a pipeline from its jobs, and triggers the effects of a change.

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, Condition, DatabaseTransaction, IntoActiveModel,
};
use storage::entities::pipelines::{Model, PipelineStatus};
use storage::entities::{ci_jobs, merge_requests, now, row_changes};

use crate::code::jobs::auto_merge;
use crate::delivery::deployments;
use crate::delivery::pipelines::events;
use crate::kernel::error::Result;

/// Maximum number of jobs of a pipeline that newer jobs replaced and that have no deployment.
const MAX_REPLACED_JOBS: u64 = 5000;

/// Maximum number of replaced jobs that one change deletes. A retry replaces at most this number of jobs
/// (`commit_statuses::MAX_NAMES`), so the maximum is not exceeded.
const MAX_DELETED_JOBS: u64 = 1000;

/// Updates a pipeline in the transaction that changes one of its jobs. The pipeline is locked. Without jobs
/// it is unchanged. If its status and times are the same, nothing is written.
///
/// # Errors
/// Returns an error if a database query fails.
pub(crate) async fn update_from_jobs(
    transaction: &DatabaseTransaction,
    pipeline: Model,
    author: Option<i64>,
) -> Result<Model> {
    let jobs = ci_jobs::current(transaction, pipeline.id).await?;
    let statuses = jobs.iter().map(|job| (job.status, job.allow_failure));
    let Some(status) = status_of(statuses) else {
        return Ok(pipeline);
    };
    let mut row = pipeline.clone().into_active_model();
    let finished = jobs.iter().filter_map(|job| job.finished_at).max();
    row.status = Set(status);
    row.started_at = Set(jobs.iter().filter_map(|job| job.started_at).min());
    row.finished_at = Set(finished.filter(|_| status.is_finished()));
    row.coverage = Set(coverage(&jobs));
    let after = row_changes::update_if_changed(transaction, &pipeline, row).await?;
    if pipeline.status != after.status {
        events::publish_pipeline(transaction, &after, &jobs, author).await?;
        enqueue_auto_merges(transaction, &after).await?;
    }
    Ok(after)
}

/// Applies the effects of a new job or a changed status in the same transaction: webhook deliveries and the
/// status of its deployment. `before` is the job that it replaces. The project is locked.
///
/// # Errors
/// Returns an error if a database query fails.
pub(crate) async fn job_changed(
    transaction: &DatabaseTransaction,
    pipeline: &Model,
    job: &ci_jobs::Model,
    before: Option<i64>,
    author: Option<i64>,
) -> Result<()> {
    events::publish_jobs(transaction, pipeline, std::slice::from_ref(job), author).await?;
    if let Some(before) = before {
        deployments::replace_job(transaction, before, job).await?;
    }
    deployments::update_from_job(transaction, job).await
}

/// Like [`job_changed`], for jobs that were canceled or retried, and that have the same status.
///
/// # Errors
/// Returns an error if a database query fails.
pub(super) async fn jobs_changed(
    transaction: &DatabaseTransaction,
    pipeline: &Model,
    jobs: &[ci_jobs::Model],
    status: PipelineStatus,
    author: i64,
) -> Result<()> {
    events::publish_jobs(transaction, pipeline, jobs, Some(author)).await?;
    deployments::update_from_jobs(transaction, jobs, status).await
}

/// Deletes the oldest replaced jobs beyond the maximum, after further jobs were replaced. Jobs with a deployment
/// remain.
///
/// # Errors
/// Returns an error if a database query fails.
pub(crate) async fn delete_replaced_jobs(transaction: &DatabaseTransaction, pipeline_id: i64) -> Result<()> {
    let (kept, batch) = (MAX_REPLACED_JOBS, MAX_DELETED_JOBS);
    Ok(ci_jobs::delete_replaced(transaction, pipeline_id, kept, batch).await?)
}

/// Sets the status of a pipeline without jobs.
///
/// # Errors
/// Returns an error if a database query fails.
pub(super) async fn set_status(
    transaction: &DatabaseTransaction,
    pipeline: Model,
    status: PipelineStatus,
    author: Option<i64>,
) -> Result<Model> {
    let mut row = pipeline.into_active_model();
    let at = now();
    row.status = Set(status);
    row.finished_at = Set(status.is_finished().then_some(at));
    row.updated_at = Set(at);
    let after = row.update(transaction).await?;
    events::publish_pipeline(transaction, &after, &[], author).await?;
    Ok(after)
}

/// Enqueues a job for merge requests that wait for a successful pipeline. Enabling an automatic merge takes
/// the project lock held here and then reads the pipeline, so none is missed.
///
/// # Errors
/// Returns an error if a database query fails.
pub(super) async fn enqueue_auto_merges(transaction: &DatabaseTransaction, pipeline: &Model) -> Result<()> {
    match pipeline.status {
        PipelineStatus::Success | PipelineStatus::Skipped => {
            enqueue_waiting_merges(transaction, pipeline).await
        }
        _ => Ok(()),
    }
}

/// As [`enqueue_auto_merges`], with any status of the pipeline. After its deletion, an earlier pipeline is the newest.
///
/// # Errors
/// Returns an error if a database query fails.
pub(super) async fn enqueue_waiting_merges(
    transaction: &DatabaseTransaction,
    pipeline: &Model,
) -> Result<()> {
    if pipeline.tag {
        return Ok(());
    }
    let of_pipeline = Condition::all()
        .add(merge_requests::Column::SourceProjectId.eq(pipeline.project_id))
        .add(merge_requests::Column::SourceBranch.eq(&pipeline.ref_name))
        .add(merge_requests::Column::HeadSha.eq(&pipeline.sha));
    auto_merge::enqueue_waiting(transaction, of_pipeline).await
}

/// Returns the average of the coverage that jobs report.
fn coverage(jobs: &[ci_jobs::Model]) -> Option<f64> {
    let reported: Vec<f64> = jobs.iter().filter_map(|job| job.coverage).collect();
    let count = u32::try_from(reported.len()).ok().filter(|count| *count > 0)?;
    Some(reported.iter().sum::<f64>() / f64::from(count))
}

/// Derives the status of a pipeline from the statuses of its jobs and whether each may fail. Returns `None`
/// without jobs.
fn status_of(jobs: impl Iterator<Item = (PipelineStatus, bool)>) -> Option<PipelineStatus> {
    use PipelineStatus::{
        Canceled, Created, Failed, Manual, Pending, Preparing, Running, Scheduled, Skipped, Success,
        WaitingForResource,
    };
    let all: Vec<PipelineStatus> = jobs
        .map(|(status, may_fail)| match status {
            Failed | Canceled if may_fail => Success,
            status => status,
        })
        .collect();
    if all.is_empty() {
        return None;
    }
    let only = |these: &[PipelineStatus]| all.iter().all(|status| these.contains(status));
    let any = |these: &[PipelineStatus]| all.iter().any(|status| these.contains(status));
    let status = if only(&[Skipped]) {
        Skipped
    } else if only(&[Success, Skipped]) {
        Success
    } else if only(&[Created]) {
        Created
    } else if only(&[Success, Skipped, Canceled]) {
        Canceled
    } else if only(&[Created, Skipped, Pending]) {
        Pending
    } else if any(&[Running, Pending]) {
        Running
    } else if any(&[WaitingForResource]) {
        WaitingForResource
    } else if any(&[Manual]) {
        Manual
    } else if any(&[Scheduled]) {
        Scheduled
    } else if any(&[Preparing]) {
        Preparing
    } else if any(&[Created]) {
        Running
    } else {
        Failed
    };
    Some(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(jobs: &[(PipelineStatus, bool)]) -> Option<PipelineStatus> {
        status_of(jobs.iter().copied())
    }

    #[test]
    fn pipeline_status_follows_job_statuses() {
        use PipelineStatus::{
            Canceled, Created, Failed, Manual, Pending, Preparing, Running, Scheduled, Skipped, Success,
            WaitingForResource,
        };
        let all = [
            Created,
            WaitingForResource,
            Preparing,
            Pending,
            Running,
            Success,
            Failed,
            Canceled,
            Skipped,
            Manual,
            Scheduled,
        ];
        for status in all {
            assert_eq!(of(&[(status, false)]), Some(status), "{status:?}");
            assert_eq!(
                of(&[(status, false), (status, false)]),
                Some(status),
                "{status:?}"
            );
        }
        for (jobs, status) in [
            ([Success, Failed], Failed),
            ([Success, Skipped], Success),
            ([Success, Canceled], Canceled),
            ([Failed, Canceled], Failed),
            ([Success, Running], Running),
            ([Failed, Running], Running),
            ([Failed, Pending], Running),
            ([Success, Created], Running),
            ([Created, Pending], Pending),
            ([Success, Manual], Manual),
            ([Manual, Running], Running),
            ([Success, Scheduled], Scheduled),
        ] {
            assert_eq!(of(&jobs.map(|job| (job, false))), Some(status), "{jobs:?}");
        }
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn allowed_failure_does_not_fail_pipeline() {
        use PipelineStatus::{Canceled, Failed, Running, Success};
        assert_eq!(of(&[(Success, false), (Failed, true)]), Some(Success));
        assert_eq!(of(&[(Failed, true)]), Some(Success));
        assert_eq!(of(&[(Canceled, true), (Success, false)]), Some(Success));
        assert_eq!(of(&[(Failed, false), (Failed, true)]), Some(Failed));
        assert_eq!(of(&[(Running, true), (Success, false)]), Some(Running));
    }
}
