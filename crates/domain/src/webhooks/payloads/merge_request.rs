//! Payloads of `merge_request` events: a merge request was created, updated, closed, reopened, merged or approved, or
//! an approval was revoked.

use std::collections::BTreeMap;

use git::RepositoryId;
use sea_orm::EntityTrait;
use serde::Serialize;
use storage::entities::issuables::{IssuableKind, assignees_of, labels_of};
use storage::entities::merge_requests::{self, MergeRequestState, MergeStatus};
use storage::entities::{Visibility, namespaces, projects, users};

use super::PayloadContext;
use super::changes::{self, ChangePart};
use super::parts::{CommitPart, LabelPart, ProjectPart, RepositoryPart, UserPart, date, visibility_level};
use crate::code::push_events::oid;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::text::durations::format_duration;
use crate::planning::issuables::events::{IssuableEventData, IssuableState};
use crate::review::merge_requests::{head_pipeline, is_draft};

#[derive(Debug, Serialize)]
pub(super) struct MergeRequestPayload {
    object_kind: &'static str,
    event_type: &'static str,
    user: UserPart,
    project: ProjectPart,
    object_attributes: MergeRequestAttributes,
    labels: Vec<LabelPart>,
    changes: BTreeMap<String, ChangePart>,
    repository: RepositoryPart,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    assignees: Vec<UserPart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    external_approval_rule: Option<StatusCheckPart>,
}

/// The external status check to which a payload is sent.
#[derive(Debug, Serialize)]
pub(super) struct StatusCheckPart {
    pub(super) id: i64,
    pub(super) name: String,
    pub(super) external_url: String,
}

/// A merge request, as in all payloads.
#[derive(Debug, Serialize)]
pub(super) struct MergeRequestAttributes {
    id: i64,
    iid: i64,
    title: String,
    description: Option<String>,
    state: &'static str,
    state_id: u8,
    source_branch: String,
    source_project_id: Option<i64>,
    target_branch: String,
    target_project_id: i64,
    author_id: Option<i64>,
    assignee_id: Option<i64>,
    assignee_ids: Vec<i64>,
    milestone_id: Option<i64>,
    work_in_progress: bool,
    merge_status: &'static str,
    merge_error: Option<String>,
    merge_commit_sha: Option<String>,
    merge_params: BTreeMap<&'static str, String>,
    merge_user_id: Option<i64>,
    merge_when_pipeline_succeeds: bool,
    head_pipeline_id: Option<i64>,
    time_estimate: i64,
    total_time_spent: i64,
    human_time_estimate: Option<String>,
    human_total_time_spent: Option<String>,
    last_edited_at: Option<String>,
    last_edited_by_id: Option<i64>,
    updated_by_id: Option<i64>,
    created_at: String,
    updated_at: String,
    url: String,
    source: Option<ProjectPart>,
    target: ProjectPart,
    last_commit: Option<CommitPart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    oldrev: Option<String>,
}

/// Returns a merge request as part of another payload.
pub(super) async fn load_attributes(
    backend: &Backend,
    subject: &PayloadContext,
    merge_request: merge_requests::Model,
) -> Result<MergeRequestAttributes> {
    let id = merge_request.id;
    let mut assignees = assignees_of(backend.database.read(), IssuableKind::MergeRequest, [id]).await?;
    let assignees = assignees.remove(&id).unwrap_or_default();
    attributes(backend, subject, merge_request, &assignees).await
}

pub(super) async fn payload(
    backend: &Backend,
    subject: &PayloadContext,
    external_approval_rule: Option<StatusCheckPart>,
) -> Result<MergeRequestPayload> {
    let missing = || Error::internal("the merge request of the event does not exist");
    let db = backend.database.read();
    let id = subject.event.target_id.ok_or_else(missing)?;
    let found = merge_requests::Entity::find_by_id(id).one(db).await?;
    let merge_request = found.ok_or_else(missing)?;
    let data = subject.event.data.as_deref().ok_or_else(missing)?;
    let data: IssuableEventData = serde_json::from_str(data).map_err(Error::internal)?;
    let mut labels = labels_of(db, IssuableKind::MergeRequest, [id]).await?;
    let mut assignees = assignees_of(db, IssuableKind::MergeRequest, [id]).await?;
    let assignees = assignees.remove(&id).unwrap_or_default();
    let about = attributes(backend, subject, merge_request, &assignees).await?;
    Ok(MergeRequestPayload {
        object_kind: "merge_request",
        event_type: "merge_request",
        user: subject.user_part(),
        project: subject.project_part(),
        object_attributes: MergeRequestAttributes {
            action: Some(data.action),
            oldrev: data.oldrev,
            ..about
        },
        labels: labels
            .remove(&id)
            .unwrap_or_default()
            .into_iter()
            .map(Into::into)
            .collect(),
        changes: changes::for_receivers(backend, subject, data.changes).await?,
        repository: subject.repository_part(false),
        assignees: assignees.iter().map(|user| subject.person_part(user)).collect(),
        external_approval_rule,
    })
}

async fn attributes(
    backend: &Backend,
    subject: &PayloadContext,
    of: merge_requests::Model,
    assignees: &[users::Model],
) -> Result<MergeRequestAttributes> {
    let source = match of.source_project_id {
        Some(id) => projects::by_reference(backend.database.read(), &id.to_string()).await?,
        None => None,
    };
    let source = source.map(|(project, namespace)| source_part(subject, &namespace, &project));
    let last_commit = last_commit(backend, subject, &of).await?;
    let mut merge_params = BTreeMap::new();
    if let Some(force) = of.force_remove_source_branch {
        let text = if force { "1" } else { "0" };
        merge_params.insert("force_remove_source_branch", text.to_owned());
    }
    Ok(MergeRequestAttributes {
        id: of.id,
        iid: of.iid,
        state: match of.state {
            MergeRequestState::Opened => "opened",
            MergeRequestState::Closed => "closed",
            MergeRequestState::Locked => "locked",
            MergeRequestState::Merged => "merged",
        },
        state_id: IssuableState::from(of.state).id(),
        source_project_id: of.source_project_id,
        target_project_id: of.target_project_id,
        author_id: of.author_id,
        assignee_id: assignees.first().map(|user| user.id),
        assignee_ids: assignees.iter().map(|user| user.id).collect(),
        milestone_id: of.milestone_id,
        work_in_progress: is_draft(&of.title),
        merge_status: match of.merge_status {
            MergeStatus::Unchecked => "unchecked",
            MergeStatus::CanBeMerged => "can_be_merged",
            MergeStatus::CannotBeMerged => "cannot_be_merged",
        },
        merge_params,
        merge_user_id: of.merge_user_id,
        merge_when_pipeline_succeeds: of.merge_when_pipeline_succeeds,
        head_pipeline_id: head_pipeline_id(backend, &of).await?,
        time_estimate: of.time_estimate,
        total_time_spent: of.total_time_spent,
        human_time_estimate: format_duration(of.time_estimate),
        human_total_time_spent: format_duration(of.total_time_spent),
        last_edited_at: of.last_edited_at.map(date),
        last_edited_by_id: of.last_edited_by_id,
        updated_by_id: subject.event.author_id,
        created_at: date(of.created_at),
        updated_at: date(of.updated_at),
        url: format!("{}/-/merge_requests/{}", subject.web_url(), of.iid),
        source,
        target: subject.project_part(),
        last_commit,
        action: None,
        oldrev: None,
        title: of.title,
        description: of.description,
        source_branch: of.source_branch,
        target_branch: of.target_branch,
        merge_error: of.merge_error,
        merge_commit_sha: of.merge_commit_sha,
    })
}

/// Returns the source project. If it is private, or less visible than the target project, members of the target project
/// may not see it.
fn source_part(
    subject: &PayloadContext,
    namespace: &namespaces::Model,
    source: &projects::Model,
) -> ProjectPart {
    let target = &subject.project;
    let is_hidden = source.visibility == Visibility::Private
        || visibility_level(source.visibility) < visibility_level(target.visibility);
    if source.id != target.id && is_hidden {
        return ProjectPart::hidden(source);
    }
    ProjectPart::new(&subject.base_url, namespace, source)
}

/// Returns the ID of the newest pipeline of the merge request's head.
async fn head_pipeline_id(backend: &Backend, of: &merge_requests::Model) -> Result<Option<i64>> {
    let found = head_pipeline::find(backend.database.read(), of).await?;
    Ok(found.map(|pipeline| pipeline.id))
}

/// Returns the head commit of the source branch, from either repository.
async fn last_commit(
    backend: &Backend,
    subject: &PayloadContext,
    of: &merge_requests::Model,
) -> Result<Option<CommitPart>> {
    let Some(head) = oid(&of.head_sha) else {
        return Ok(None);
    };
    let source = of.source_project_id.map(|id| {
        let id = RepositoryId::of_project(id);
        backend.repositories.repository(&id)
    });
    for repository in [Some(subject.repository.clone()), source].into_iter().flatten() {
        match repository.commit(head).await {
            Ok(commit) => return Ok(Some(subject.commit_part(commit, None))),
            Err(git::Error::ObjectNotFound | git::Error::RepositoryMissing) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}
