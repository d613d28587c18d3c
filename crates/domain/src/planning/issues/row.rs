//! Issues with their related rows, loaded in a fixed number of statements per page.

use std::collections::HashMap;

use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, JoinType, QueryFilter, QuerySelect, RelationTrait};
use storage::entities::access::Viewer;
use storage::entities::{closing_merge_requests, issues, labels, merge_requests, now, users};

use super::find;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::planning::issuables::Associations;
use crate::planning::issuables::subscriptions::is_subscribed;
use crate::planning::milestones as milestones_service;

/// An issue with its related rows.
#[derive(Debug, Clone)]
pub struct IssueDetail {
    /// The issue.
    pub issue: issues::Model,
    /// Full path of its project.
    pub project_path: String,
    /// The user who created it, unless deleted.
    pub author: Option<users::Model>,
    /// The user who closed it; `None` if it is open or the user was deleted.
    pub closed_by: Option<users::Model>,
    /// The assignees in order of assignment.
    pub assignees: Vec<users::Model>,
    /// The labels, sorted by title.
    pub labels: Vec<labels::Model>,
    /// The milestone.
    pub milestone: Option<milestones_service::MilestoneDetail>,
    /// Whether the caller is subscribed; `None` in lists and for anonymous callers.
    pub subscribed: Option<bool>,
}

/// Returns one issue of a project.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist or the caller cannot see it.
pub async fn get(backend: &Backend, access: &ProjectAccess, iid: i64) -> Result<IssueDetail> {
    let issue = find(backend.database.read(), access, iid).await?;
    load_detail(backend, &access.caller, issue).await
}

/// Loads the related rows of one issue, and whether the caller is subscribed.
///
/// # Errors
/// Returns an error if the database fails.
pub(super) async fn load_detail(
    backend: &Backend,
    caller: &Caller,
    issue: issues::Model,
) -> Result<IssueDetail> {
    let db = backend.database.read();
    let id = issue.id;
    let mut details = decorate(db, caller.viewer(), vec![issue]).await?;
    let detail = details.pop();
    let mut detail = detail.ok_or_else(|| Error::internal(format!("issue {id} was not found")))?;
    if let Some(user) = caller.as_user() {
        detail.subscribed = Some(is_subscribed(db, &detail.issue, &detail.assignees, user.id).await?);
    }
    Ok(detail)
}

/// Loads the related rows of a whole page that are visible to the viewer.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn decorate(
    db: &impl ConnectionTrait,
    viewer: Viewer,
    issues: Vec<issues::Model>,
) -> Result<Vec<IssueDetail>> {
    let issues = hide_invisible(db, viewer, issues).await?;
    let associations = Associations::load(db, &issues, HashMap::new()).await?;
    Ok(with_associations(issues, associations))
}

/// Limits references of issues to what the viewer can see: the number of closing merge requests, and the
/// issue they were moved to.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn hide_invisible(
    db: &impl ConnectionTrait,
    viewer: Viewer,
    issues: Vec<issues::Model>,
) -> Result<Vec<issues::Model>> {
    let issues = count_visible_merge_requests(db, viewer, issues).await?;
    hide_moved_to(db, viewer, issues).await
}

/// Replaces the number of closing merge requests by the visible ones. Others may belong to private projects.
async fn count_visible_merge_requests(
    db: &impl ConnectionTrait,
    viewer: Viewer,
    mut issues: Vec<issues::Model>,
) -> Result<Vec<issues::Model>> {
    let closed = issues.iter().filter(|issue| issue.merge_requests_count > 0);
    let closed: Vec<i64> = closed.map(|issue| issue.id).collect();
    if closed.is_empty() || viewer == Viewer::Admin {
        return Ok(issues);
    }
    let counts: Vec<(i64, i64)> = closing_merge_requests::Entity::find()
        .select_only()
        .column(closing_merge_requests::Column::IssueId)
        .column_as(closing_merge_requests::Column::Id.count(), "visible")
        .join(
            JoinType::InnerJoin,
            closing_merge_requests::Relation::MergeRequest.def(),
        )
        .filter(closing_merge_requests::Column::IssueId.is_in(closed))
        .filter(merge_requests::visible(viewer, now().date_naive()))
        .group_by(closing_merge_requests::Column::IssueId)
        .into_tuple()
        .all(db)
        .await?;
    let counts: HashMap<i64, i64> = counts.into_iter().collect();
    for issue in &mut issues {
        let count = counts.get(&issue.id).copied().unwrap_or_default();
        issue.merge_requests_count = i32::try_from(count).unwrap_or(i32::MAX);
    }
    Ok(issues)
}

/// Removes the references to moved issues that the viewer cannot see.
async fn hide_moved_to(
    db: &impl ConnectionTrait,
    viewer: Viewer,
    mut issues: Vec<issues::Model>,
) -> Result<Vec<issues::Model>> {
    let moved: Vec<i64> = issues.iter().filter_map(|issue| issue.moved_to_id).collect();
    if moved.is_empty() || viewer == Viewer::Admin {
        return Ok(issues);
    }
    let visible: Vec<i64> = issues::Entity::find()
        .select_only()
        .column(issues::Column::Id)
        .filter(issues::Column::Id.is_in(moved))
        .filter(issues::visible(viewer, now().date_naive()))
        .into_tuple()
        .all(db)
        .await?;
    for issue in &mut issues {
        issue.moved_to_id = issue.moved_to_id.filter(|id| visible.contains(id));
    }
    Ok(issues)
}

/// Combines issues with their related rows. Issues whose project was deleted meanwhile are left out.
pub(crate) fn with_associations(
    issues: Vec<issues::Model>,
    mut associations: Associations,
) -> Vec<IssueDetail> {
    let details = issues.into_iter().filter_map(|issue| {
        Some(IssueDetail {
            project_path: associations.path(&issue)?,
            author: associations.user(issue.author_id),
            closed_by: associations.user(issue.closed_by_id),
            assignees: associations.assignees(&issue),
            labels: associations.labels(&issue),
            milestone: associations.milestone(&issue),
            subscribed: None,
            issue,
        })
    });
    details.collect()
}
