//! Pipelines and commit statuses.

use chrono::{DateTime, Utc};
use domain::delivery::commit_statuses;
use domain::delivery::pipelines::{PipelineDetail, Variable};
use storage::entities::pipelines::{Model, PipelineStatus};
use storage::entities::users::UserSummary;

use crate::views::accounts::users::creator;
use crate::views::enums::Convert;
use contract::{
    CommitStatus, CommitStatusState, Pipeline, PipelineDetailedStatus, PipelineReference, PipelineVariable,
};

/// ID that means no commit.
const ZERO_ID: &str = "0000000000000000000000000000000000000000";

/// Location of a project's pages.
#[derive(Debug, Clone, Copy)]
pub struct ProjectLocation<'a> {
    /// The base URL.
    pub base: &'a str,
    /// The full path of the project.
    pub path: &'a str,
}

/// Returns a pipeline in the format of lists and other resources.
#[must_use]
pub fn reference(at: ProjectLocation<'_>, pipeline: &Model) -> PipelineReference {
    PipelineReference {
        id: pipeline.id,
        sha: pipeline.sha.clone(),
        r#ref: pipeline.ref_name.clone(),
        status: pipeline.status.convert(),
        created_at: Some(pipeline.created_at.into()),
        updated_at: Some(pipeline.updated_at.into()),
        web_url: Some(format!("{}/{}/-/pipelines/{}", at.base, at.path, pipeline.id)),
    }
}

/// Returns a pipeline with details.
#[must_use]
pub fn pipeline(at: ProjectLocation<'_>, row: PipelineDetail) -> Pipeline {
    let PipelineDetail { pipeline, user } = row;
    pipeline_of(at, pipeline, user)
}

/// As [`pipeline`], from a pipeline and its creator.
#[must_use]
pub fn pipeline_of(
    at: ProjectLocation<'_>,
    pipeline: Model,
    user: Option<impl Into<UserSummary>>,
) -> Pipeline {
    let moment = |time: Option<DateTime<Utc>>| time.map(Into::into);
    let details_path = format!("/{}/-/pipelines/{}", at.path, pipeline.id);
    Pipeline {
        id: pipeline.id,
        project_id: pipeline.project_id,
        status: pipeline.status.convert(),
        created_at: pipeline.created_at.into(),
        updated_at: pipeline.updated_at.into(),
        web_url: format!("{}{details_path}", at.base),
        before_sha: ZERO_ID.to_owned(),
        tag: pipeline.tag,
        yaml_errors: None,
        user: creator(at.base, user),
        started_at: moment(pipeline.started_at),
        finished_at: moment(pipeline.finished_at),
        committed_at: None,
        duration: pipeline.duration(),
        coverage: pipeline.coverage.map(|coverage| format!("{coverage:.2}")),
        detailed_status: detailed(pipeline.status, details_path),
        sha: pipeline.sha,
        r#ref: pipeline.ref_name,
    }
}

/// Returns the display form of a status.
fn detailed(status: PipelineStatus, details_path: String) -> PipelineDetailedStatus {
    let word = status.name();
    let (text, label) = match status {
        PipelineStatus::Success => ("passed", "passed"),
        PipelineStatus::WaitingForResource => ("waiting", "waiting for resource"),
        PipelineStatus::Manual => ("manual", "waiting for manual action"),
        PipelineStatus::Scheduled => ("scheduled", "waiting for delayed job"),
        _ => (word, word),
    };
    let group = word.replace('_', "-");
    PipelineDetailedStatus {
        icon: format!("status_{}", word.split('_').next().unwrap_or(word)),
        text: text.to_owned(),
        label: label.to_owned(),
        tooltip: text.to_owned(),
        group,
        has_details: true,
        details_path,
        illustration: None,
        favicon: format!("/favicon_status_{word}.png"),
    }
}

/// Returns a variable with its value.
#[must_use]
pub fn variable(variable: Variable) -> PipelineVariable {
    PipelineVariable {
        variable_type: variable.kind.convert(),
        key: variable.key,
        value: variable.value.into_exposed(),
    }
}

/// Converts a reported status.
#[must_use]
pub fn reported(state: CommitStatusState) -> PipelineStatus {
    match state {
        CommitStatusState::Pending => PipelineStatus::Pending,
        CommitStatusState::Running => PipelineStatus::Running,
        CommitStatusState::Success => PipelineStatus::Success,
        CommitStatusState::Failed => PipelineStatus::Failed,
        CommitStatusState::Canceled => PipelineStatus::Canceled,
        CommitStatusState::Skipped => PipelineStatus::Skipped,
    }
}

/// Returns a commit status.
#[must_use]
pub fn commit_status(base: &str, row: commit_statuses::CommitStatusDetail) -> CommitStatus {
    let commit_statuses::CommitStatusDetail {
        job,
        pipeline,
        reporter,
    } = row;
    CommitStatus {
        id: job.id,
        sha: pipeline.sha,
        r#ref: pipeline.ref_name,
        status: job.status.convert(),
        name: job.name,
        target_url: job.target_url,
        description: job.description,
        created_at: job.created_at.into(),
        started_at: job.started_at.map(Into::into),
        finished_at: job.finished_at.map(Into::into),
        allow_failure: job.allow_failure,
        coverage: job.coverage,
        pipeline_id: pipeline.id,
        author: creator(base, reporter),
    }
}
