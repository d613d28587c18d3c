//! Payloads of `issue` events: an issue was created, updated, closed or reopened.

use std::collections::BTreeMap;

use chrono::NaiveDate;
use sea_orm::{ColumnTrait, Condition, ConnectionTrait, EntityTrait, PaginatorTrait, QueryFilter};
use serde::Serialize;
use storage::entities::access::Viewer;
use storage::entities::issuables::{assignees_of, labels_of};
use storage::entities::{issues, now, users};

use super::PayloadContext;
use super::changes::{self, ChangePart};
use super::parts::{LabelPart, ProjectPart, RepositoryPart, Shared, UserPart, date};
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::policy::InstancePlan;
use crate::kernel::text::durations::format_duration;
use crate::planning::issuables::IssuableKind;
use crate::planning::issuables::events::{IssuableEventData, IssuableState};

#[derive(Debug, Serialize)]
pub(super) struct IssuePayload {
    object_kind: &'static str,
    event_type: &'static str,
    user: UserPart,
    project: ProjectPart,
    object_attributes: IssueAttributes,
    labels: Vec<Shared<LabelPart>>,
    changes: BTreeMap<String, ChangePart>,
    repository: RepositoryPart,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    assignees: Vec<UserPart>,
}

/// An issue, as in all payloads.
#[derive(Debug, Serialize)]
pub(super) struct IssueAttributes {
    id: i64,
    iid: i64,
    project_id: i64,
    title: String,
    description: Option<String>,
    state: &'static str,
    state_id: u8,
    author_id: Option<i64>,
    assignee_id: Option<i64>,
    assignee_ids: Vec<i64>,
    milestone_id: Option<i64>,
    confidential: bool,
    discussion_locked: bool,
    due_date: Option<NaiveDate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    weight: Option<Option<i32>>,
    relative_position: Option<i64>,
    moved_to_id: Option<i64>,
    duplicated_to_id: Option<i64>,
    time_estimate: i64,
    total_time_spent: i64,
    human_time_estimate: Option<String>,
    human_total_time_spent: Option<String>,
    last_edited_at: Option<String>,
    last_edited_by_id: Option<i64>,
    updated_by_id: Option<i64>,
    closed_at: Option<String>,
    created_at: String,
    updated_at: String,
    url: String,
    labels: Vec<Shared<LabelPart>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<String>,
}

/// An issue with its related rows.
struct IssueWithRelations {
    issue: issues::Model,
    assignees: Vec<users::Model>,
    labels: Vec<Shared<LabelPart>>,
    /// Whether the plan includes weights.
    weighs: bool,
}

async fn load_relations(backend: &Backend, mut issue: issues::Model) -> Result<IssueWithRelations> {
    let (db, id) = (backend.database.read(), issue.id);
    issue.moved_to_id = shown_target(db, &issue).await?;
    let mut labels = labels_of(db, IssuableKind::Issue, [id]).await?;
    let mut assignees = assignees_of(db, IssuableKind::Issue, [id]).await?;
    let labels = labels.remove(&id).unwrap_or_default();
    let assignees = assignees.remove(&id).unwrap_or_default();
    Ok(IssueWithRelations {
        issue,
        assignees,
        labels: labels
            .into_iter()
            .map(|label| Shared::new(label.into()))
            .collect(),
        weighs: backend.instance.plan >= InstancePlan::Starter,
    })
}

/// Returns the ID of the issue to which an issue was moved, if the issue is in the same project or visible to all. The
/// receiver may not see other projects.
async fn shown_target(db: &impl ConnectionTrait, issue: &issues::Model) -> Result<Option<i64>> {
    let Some(moved_to_id) = issue.moved_to_id else {
        return Ok(None);
    };
    let is_shown = Condition::any()
        .add(issues::Column::ProjectId.eq(issue.project_id))
        .add(issues::visible(Viewer::Anonymous, now().date_naive()));
    let target = issues::Entity::find_by_id(moved_to_id).filter(is_shown);
    Ok((target.count(db).await? > 0).then_some(moved_to_id))
}

/// Returns an issue as part of another payload.
pub(super) async fn load_attributes(
    backend: &Backend,
    subject: &PayloadContext,
    issue: issues::Model,
) -> Result<IssueAttributes> {
    Ok(attributes(subject, &load_relations(backend, issue).await?, None))
}

pub(super) async fn payload(backend: &Backend, subject: &PayloadContext) -> Result<IssuePayload> {
    let missing = || Error::internal("the issue of the event does not exist");
    let db = backend.database.read();
    let id = subject.event.target_id.ok_or_else(missing)?;
    let issue = issues::Entity::find_by_id(id)
        .one(db)
        .await?
        .ok_or_else(missing)?;
    let data = subject.event.data.as_deref().ok_or_else(missing)?;
    let data: IssuableEventData = serde_json::from_str(data).map_err(Error::internal)?;
    let issue_detail = load_relations(backend, issue).await?;
    Ok(IssuePayload {
        object_kind: "issue",
        event_type: if issue_detail.issue.confidential {
            "confidential_issue"
        } else {
            "issue"
        },
        user: subject.user_part(),
        project: subject.project_part(),
        object_attributes: attributes(subject, &issue_detail, Some(data.action)),
        changes: changes::for_receivers(backend, subject, data.changes).await?,
        repository: subject.repository_part(false),
        assignees: issue_detail
            .assignees
            .iter()
            .map(|user| subject.person_part(user))
            .collect(),
        labels: issue_detail.labels,
    })
}

fn attributes(
    subject: &PayloadContext,
    issue_detail: &IssueWithRelations,
    action: Option<String>,
) -> IssueAttributes {
    let IssueWithRelations {
        issue,
        assignees,
        labels,
        weighs,
    } = issue_detail;
    IssueAttributes {
        id: issue.id,
        iid: issue.iid,
        project_id: issue.project_id,
        state: match issue.state {
            issues::IssueState::Opened => "opened",
            issues::IssueState::Closed => "closed",
        },
        state_id: IssuableState::from(issue.state).id(),
        author_id: issue.author_id,
        assignee_id: assignees.first().map(|user| user.id),
        assignee_ids: assignees.iter().map(|user| user.id).collect(),
        milestone_id: issue.milestone_id,
        confidential: issue.confidential,
        discussion_locked: issue.discussion_locked,
        due_date: issue.due_date,
        weight: (*weighs).then_some(issue.weight),
        relative_position: issue.relative_position,
        moved_to_id: issue.moved_to_id,
        duplicated_to_id: None,
        time_estimate: issue.time_estimate,
        total_time_spent: issue.total_time_spent,
        human_time_estimate: format_duration(issue.time_estimate),
        human_total_time_spent: format_duration(issue.total_time_spent),
        last_edited_at: issue.last_edited_at.map(date),
        last_edited_by_id: issue.last_edited_by_id,
        updated_by_id: subject.event.author_id,
        closed_at: issue.closed_at.map(date),
        created_at: date(issue.created_at),
        updated_at: date(issue.updated_at),
        url: format!("{}/-/issues/{}", subject.web_url(), issue.iid),
        labels: labels.clone(),
        action,
        title: issue.title.clone(),
        description: issue.description.clone(),
    }
}
