//! Payloads of `pipeline` events: a pipeline was created or changed its status.

use std::collections::BTreeSet;

use sea_orm::EntityTrait;
use serde::Serialize;
use storage::entities::pipelines;

use super::PayloadContext;
use super::parts::{CommitPart, ProjectPart, UserPart, date};
use crate::code::push_events::oid;
use crate::delivery::pipelines::events::{JobEventData, PipelineEventData};
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};

/// Placeholder ID of a missing object.
const ZERO_ID: &str = "0000000000000000000000000000000000000000";

#[derive(Debug, Serialize)]
pub(super) struct PipelinePayload {
    object_kind: &'static str,
    object_attributes: PipelineAttributes,
    merge_request: Option<()>,
    user: UserPart,
    project: ProjectPart,
    commit: Option<CommitPart>,
    builds: Vec<BuildPart>,
}

#[derive(Debug, Serialize)]
struct PipelineAttributes {
    id: i64,
    #[serde(rename = "ref")]
    ref_name: String,
    tag: bool,
    sha: String,
    before_sha: &'static str,
    source: &'static str,
    status: String,
    detailed_status: String,
    stages: Vec<String>,
    created_at: String,
    finished_at: Option<String>,
    duration: Option<i64>,
    /// Always empty; variable values are never sent.
    variables: [(); 0],
}

#[derive(Debug, Serialize)]
struct BuildPart {
    id: i64,
    stage: String,
    name: String,
    status: String,
    created_at: String,
    started_at: Option<String>,
    finished_at: Option<String>,
    when: &'static str,
    manual: bool,
    allow_failure: bool,
}

impl From<JobEventData> for BuildPart {
    fn from(job: JobEventData) -> Self {
        Self {
            id: job.id,
            stage: job.stage,
            name: job.name,
            manual: job.status == "manual",
            status: job.status,
            created_at: date(job.created_at),
            started_at: job.started_at.map(date),
            finished_at: job.finished_at.map(date),
            when: "on_success",
            allow_failure: job.allow_failure,
        }
    }
}

pub(super) async fn payload(backend: &Backend, subject: &PayloadContext) -> Result<PipelinePayload> {
    let missing = || Error::internal("the pipeline of the event does not exist");
    let id = subject.event.target_id.ok_or_else(missing)?;
    let found = pipelines::Entity::find_by_id(id).one(backend.database.read());
    let pipeline = found.await?.ok_or_else(missing)?;
    let data = subject.event.data.as_deref().ok_or_else(missing)?;
    let data: PipelineEventData = serde_json::from_str(data).map_err(Error::internal)?;
    let ends = data.started_at.zip(data.finished_at);
    let stages: BTreeSet<String> = data.jobs.iter().map(|job| job.stage.clone()).collect();
    let commit = match oid(&pipeline.sha) {
        Some(commit) => subject.repository.commit(commit).await.ok(),
        None => None,
    };
    Ok(PipelinePayload {
        object_kind: "pipeline",
        object_attributes: PipelineAttributes {
            id,
            ref_name: pipeline.ref_name,
            tag: pipeline.tag,
            sha: pipeline.sha,
            before_sha: ZERO_ID,
            source: pipeline.source.name(),
            detailed_status: data.status.clone(),
            status: data.status,
            stages: stages.into_iter().collect(),
            created_at: date(pipeline.created_at),
            finished_at: data.finished_at.map(date),
            duration: ends.map(|(began, finished)| (finished - began).num_seconds()),
            variables: [],
        },
        merge_request: None,
        user: subject.user_part(),
        project: subject.project_part(),
        commit: commit.map(|commit| subject.commit_part(commit, None)),
        builds: data.jobs.into_iter().map(Into::into).collect(),
    })
}
