//! What hooks are told of pipelines and jobs: how they stood at the time. Nothing is recorded where no hook wants to know,
//! and lists of events show none of it. Values of variables are told to nobody.

use chrono::{DateTime, Utc};
use sea_orm::DatabaseTransaction;
use serde::{Deserialize, Serialize};
use storage::entities::events::{Action, TargetType};
use storage::entities::project_hooks::{self, Kind};
use storage::entities::{ci_jobs, pipelines};

use crate::error::Result;
use crate::services::events::{self, NewEvent};

/// A pipeline as it stood.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PipelineData {
    /// The word for what had become of it.
    pub status: String,
    /// When its first job began.
    pub started_at: Option<DateTime<Utc>>,
    /// When it finished.
    pub finished_at: Option<DateTime<Utc>>,
    /// Its jobs that count, at most [`MOST_JOBS`].
    pub jobs: Vec<JobData>,
}

/// A job as it stood.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct JobData {
    /// The number.
    pub id: i64,
    /// What it is called.
    pub name: String,
    /// The stage it is of.
    pub stage: String,
    /// The word for what had become of it.
    pub status: String,
    /// The pipeline goes well even if this does not.
    pub allow_failure: bool,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it began.
    pub started_at: Option<DateTime<Utc>>,
    /// When it finished.
    pub finished_at: Option<DateTime<Utc>>,
    /// The pipeline it belongs to.
    pub pipeline_id: i64,
}

/// How many jobs are told with a pipeline.
const MOST_JOBS: usize = 100;

impl PipelineData {
    /// A pipeline as it stands, with the jobs of it that count.
    #[must_use]
    pub fn of(pipeline: &pipelines::Model, jobs: &[ci_jobs::Model]) -> Self {
        Self {
            status: pipeline.status.word().to_owned(),
            started_at: pipeline.started_at,
            finished_at: pipeline.finished_at,
            jobs: jobs.iter().take(MOST_JOBS).map(Into::into).collect(),
        }
    }
}

impl From<&ci_jobs::Model> for JobData {
    fn from(job: &ci_jobs::Model) -> Self {
        Self {
            id: job.id,
            name: job.name.clone(),
            stage: job.stage.clone(),
            status: job.status.word().to_owned(),
            allow_failure: job.allow_failure,
            created_at: job.created_at,
            started_at: job.started_at,
            finished_at: job.finished_at,
            pipeline_id: job.pipeline_id,
        }
    }
}

/// Tells that a pipeline has another status.
///
/// # Errors
/// Whatever the database reports.
pub(in crate::services) async fn pipeline(
    transaction: &DatabaseTransaction,
    pipeline: &pipelines::Model,
    jobs: &[ci_jobs::Model],
    author: Option<i64>,
) -> Result<()> {
    let data = PipelineData::of(pipeline, jobs);
    let target = (TargetType::Pipeline, pipeline.id);
    tell(
        transaction,
        pipeline.project_id,
        Kind::Pipeline,
        target,
        &data,
        author,
    )
    .await
}

/// Tells that a job has another status.
///
/// # Errors
/// Whatever the database reports.
pub(super) async fn job(
    transaction: &DatabaseTransaction,
    pipeline: &pipelines::Model,
    job: &ci_jobs::Model,
    author: Option<i64>,
) -> Result<()> {
    let target = (TargetType::Job, job.id);
    let data = JobData::from(job);
    tell(transaction, pipeline.project_id, Kind::Job, target, &data, author).await
}

async fn tell(
    transaction: &DatabaseTransaction,
    project_id: i64,
    kind: Kind,
    (target, id): (TargetType, i64),
    data: &impl Serialize,
    author: Option<i64>,
) -> Result<()> {
    if project_hooks::told_of(transaction, project_id, kind)
        .await?
        .is_empty()
    {
        return Ok(());
    }
    let event = NewEvent {
        project_id: Some(project_id),
        author_id: author,
        action: Action::Updated,
        target: Some(events::Target {
            kind: target,
            id,
            iid: None,
            title: None,
        }),
        data: None,
        told: Some(events::Told { kind, branch: None }),
    };
    events::write(transaction, event.with_data(data)?).await
}
