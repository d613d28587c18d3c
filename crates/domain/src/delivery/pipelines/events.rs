//! Webhook events of pipelines and jobs, with their state at that time. An event is recorded only if a
//! webhook subscribes to it, and event lists omit it. Variable values are never sent.

use chrono::{DateTime, Utc};
use sea_orm::DatabaseTransaction;
use serde::{Deserialize, Serialize};
use storage::entities::events::{EventAction, EventTargetType};
use storage::entities::project_hooks::{self, HookEvent};
use storage::entities::{ci_jobs, pipelines};

use crate::activity::events::{self, NewEvent};
use crate::activity::outbox::WebhookTarget;
use crate::kernel::error::Result;

/// A snapshot of a pipeline.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PipelineEventData {
    /// The status at that time.
    pub status: String,
    /// Start time of its first job.
    pub started_at: Option<DateTime<Utc>>,
    /// End time.
    pub finished_at: Option<DateTime<Utc>>,
    /// Its current jobs, at most [`MAX_JOBS`].
    pub jobs: Vec<JobEventData>,
}

/// A snapshot of a job.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct JobEventData {
    /// The ID.
    pub id: i64,
    /// The name.
    pub name: String,
    /// The stage.
    pub stage: String,
    /// The status at that time.
    pub status: String,
    /// Whether the pipeline succeeds even if this job fails.
    pub allow_failure: bool,
    /// The creation time.
    pub created_at: DateTime<Utc>,
    /// The start time.
    pub started_at: Option<DateTime<Utc>>,
    /// The end time.
    pub finished_at: Option<DateTime<Utc>>,
    /// The ID of the pipeline.
    pub pipeline_id: i64,
}

/// Maximum number of jobs in a pipeline event.
const MAX_JOBS: usize = 100;

impl PipelineEventData {
    /// Creates a snapshot of a pipeline with its current jobs.
    #[must_use]
    pub fn of(pipeline: &pipelines::Model, jobs: &[ci_jobs::Model]) -> Self {
        Self {
            status: pipeline.status.name().to_owned(),
            started_at: pipeline.started_at,
            finished_at: pipeline.finished_at,
            jobs: jobs.iter().take(MAX_JOBS).map(Into::into).collect(),
        }
    }
}

impl From<&ci_jobs::Model> for JobEventData {
    fn from(job: &ci_jobs::Model) -> Self {
        Self {
            id: job.id,
            name: job.name.clone(),
            stage: job.stage.clone(),
            status: job.status.name().to_owned(),
            allow_failure: job.allow_failure,
            created_at: job.created_at,
            started_at: job.started_at,
            finished_at: job.finished_at,
            pipeline_id: job.pipeline_id,
        }
    }
}

/// Records a changed status of a pipeline.
///
/// # Errors
/// Returns an error if a database query fails.
pub(crate) async fn publish_pipeline(
    transaction: &DatabaseTransaction,
    pipeline: &pipelines::Model,
    jobs: &[ci_jobs::Model],
    author: Option<i64>,
) -> Result<()> {
    let kinds = (HookEvent::Pipeline, EventTargetType::Pipeline);
    if !has_webhooks(transaction, pipeline.project_id, kinds.0).await? {
        return Ok(());
    }
    let data = vec![(pipeline.id, PipelineEventData::of(pipeline, jobs))];
    record(transaction, pipeline.project_id, kinds, data, author).await
}

/// Records changed statuses of jobs of a pipeline.
///
/// # Errors
/// Returns an error if a database query fails.
pub(super) async fn publish_jobs(
    transaction: &DatabaseTransaction,
    pipeline: &pipelines::Model,
    jobs: &[ci_jobs::Model],
    author: Option<i64>,
) -> Result<()> {
    let kinds = (HookEvent::Job, EventTargetType::Job);
    if !has_webhooks(transaction, pipeline.project_id, kinds.0).await? {
        return Ok(());
    }
    let data: Vec<(i64, JobEventData)> = jobs.iter().map(|job| (job.id, job.into())).collect();
    record(transaction, pipeline.project_id, kinds, data, author).await
}

/// Returns whether a webhook of a project subscribes to a kind of event.
async fn has_webhooks(transaction: &DatabaseTransaction, project_id: i64, kind: HookEvent) -> Result<bool> {
    let webhooks = project_hooks::subscribed_to(transaction, project_id, kind).await?;
    Ok(!webhooks.is_empty())
}

/// Records events with the IDs of their targets and their data.
async fn record<T: Serialize>(
    transaction: &DatabaseTransaction,
    project_id: i64,
    (kind, target): (HookEvent, EventTargetType),
    data: Vec<(i64, T)>,
    author: Option<i64>,
) -> Result<()> {
    let event = |id: i64| NewEvent {
        project_id: Some(project_id),
        author_id: author,
        action: EventAction::Updated,
        target: Some(events::EventTarget {
            kind: target,
            id,
            iid: None,
            title: None,
        }),
        data: None,
        webhook_target: None,
    };
    let new: Vec<NewEvent> = data
        .into_iter()
        .map(|(id, data)| event(id).with_data(&data))
        .collect::<Result<_>>()?;
    let webhooks = WebhookTarget { kind, branch: None };
    events::insert_all(transaction, project_id, new, &webhooks).await
}
