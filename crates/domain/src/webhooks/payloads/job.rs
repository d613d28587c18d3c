//! Payloads of `build` events: a job of a pipeline was created or changed its status.

use sea_orm::EntityTrait;
use serde::Serialize;
use storage::entities::pipelines;

use super::PayloadContext;
use super::parts::{ProjectPart, RepositoryPart, UserPart, date};
use crate::code::push_events::oid;
use crate::delivery::pipelines::events::JobEventData;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::spaces::namespaces::full_names;

/// Placeholder ID of a missing object.
const ZERO_ID: &str = "0000000000000000000000000000000000000000";

#[derive(Debug, Serialize)]
pub(super) struct JobPayload {
    object_kind: &'static str,
    #[serde(rename = "ref")]
    ref_name: String,
    tag: bool,
    before_sha: &'static str,
    sha: String,
    build_id: i64,
    build_name: String,
    build_stage: String,
    build_status: String,
    build_created_at: String,
    build_started_at: Option<String>,
    build_finished_at: Option<String>,
    build_duration: Option<f64>,
    build_allow_failure: bool,
    build_failure_reason: &'static str,
    pipeline_id: i64,
    project_id: i64,
    project_name: String,
    user: UserPart,
    commit: Commit,
    repository: RepositoryPart,
    project: ProjectPart,
}

/// The pipeline, under the field name that receivers expect.
#[derive(Debug, Serialize)]
struct Commit {
    id: i64,
    sha: String,
    message: Option<String>,
    author_name: Option<String>,
    author_email: Option<String>,
    status: &'static str,
    duration: Option<i64>,
    started_at: Option<String>,
    finished_at: Option<String>,
}

pub(super) async fn payload(backend: &Backend, subject: &PayloadContext) -> Result<JobPayload> {
    let missing = || Error::internal("the job of the event does not exist");
    let data = subject.event.data.as_deref().ok_or_else(missing)?;
    let data: JobEventData = serde_json::from_str(data).map_err(Error::internal)?;
    let found = pipelines::Entity::find_by_id(data.pipeline_id).one(backend.database.read());
    let pipeline = found.await?.ok_or_else(missing)?;
    let commit = match oid(&pipeline.sha) {
        Some(commit) => subject.repository.commit(commit).await.ok(),
        None => None,
    };
    let namespace_id = subject.namespace.id;
    let mut names = full_names(backend.database.read(), [namespace_id]).await?;
    let namespace_name = names.remove(&namespace_id).unwrap_or_default();
    let ends = data.started_at.zip(data.finished_at);
    let seconds = ends.map(|(began, finished)| (finished - began).as_seconds_f64());
    let author = commit.as_ref().map(|commit| commit.author.clone());
    Ok(JobPayload {
        object_kind: "build",
        before_sha: ZERO_ID,
        build_id: data.id,
        build_name: data.name,
        build_stage: data.stage,
        build_failure_reason: match data.status.as_str() {
            "failed" => "unknown_failure",
            _ => "",
        },
        build_status: data.status,
        build_created_at: date(data.created_at),
        build_started_at: data.started_at.map(date),
        build_finished_at: data.finished_at.map(date),
        build_duration: seconds,
        build_allow_failure: data.allow_failure,
        pipeline_id: pipeline.id,
        project_id: subject.project.id,
        project_name: format!("{namespace_name} / {}", subject.project.name),
        user: subject.user_part(),
        commit: Commit {
            id: pipeline.id,
            sha: pipeline.sha.clone(),
            message: commit.map(|commit| commit.message),
            author_name: author.as_ref().map(|author| author.name.clone()),
            author_email: author.map(|author| author.email),
            status: pipeline.status.name(),
            duration: pipeline.duration(),
            started_at: pipeline.started_at.map(date),
            finished_at: pipeline.finished_at.map(date),
        },
        repository: subject.repository_part(true),
        project: subject.project_part(),
        ref_name: pipeline.ref_name,
        tag: pipeline.tag,
        sha: pipeline.sha,
    })
}
