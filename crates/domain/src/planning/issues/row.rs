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
use crate::planning::issuables::subscriptions::is_subscribed;
use crate::planning::issuables::{Belongings, gather};
use crate::planning::milestones as milestones_service;

/// An issue with its related rows.
#[derive(Debug, Clone)]
pub struct Row {
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
pub async fn read(backend: &Backend, access: &ProjectAccess, iid: i64) -> Result<Row> {
    let issue = find(backend.database.read(), access, iid).await?;
    of_one(backend, &access.caller, issue).await
}

/// Loads the related rows of one issue, and whether the caller is subscribed.
///
/// # Errors
/// Returns an error if the database fails.
pub(super) async fn of_one(backend: &Backend, caller: &Caller, issue: issues::Model) -> Result<Row> {
    let db = backend.database.read();
    let id = issue.id;
    let rows = decorate(db, caller.viewer(), vec![issue]).await?;
    let mut row = rows
        .into_iter()
        .next()
        .ok_or_else(|| Error::internal(format!("issue {id} was not found")))?;
    if let Some(user) = caller.as_user() {
        row.subscribed = Some(is_subscribed(db, &row.issue, &row.assignees, user.id).await?);
    }
    Ok(row)
}

/// Loads the related rows of a whole page that are visible to the viewer.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn decorate(
    db: &impl ConnectionTrait,
    viewer: Viewer,
    found: Vec<issues::Model>,
) -> Result<Vec<Row>> {
    let found = seen_by(db, viewer, found).await?;
    let all = gather(db, &found, HashMap::new()).await?;
    Ok(rows(found, all))
}

/// Limits references of issues to what the viewer can see: the number of closing merge requests, and the
/// issue they were moved to.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn seen_by(
    db: &impl ConnectionTrait,
    viewer: Viewer,
    found: Vec<issues::Model>,
) -> Result<Vec<issues::Model>> {
    let found = counted_for(db, viewer, found).await?;
    moved_for(db, viewer, found).await
}

/// Replaces the number of closing merge requests by the visible ones. Others may belong to private projects.
async fn counted_for(
    db: &impl ConnectionTrait,
    viewer: Viewer,
    mut found: Vec<issues::Model>,
) -> Result<Vec<issues::Model>> {
    let closed = found.iter().filter(|issue| issue.merge_requests_count > 0);
    let closed: Vec<i64> = closed.map(|issue| issue.id).collect();
    if closed.is_empty() || viewer == Viewer::Admin {
        return Ok(found);
    }
    let counts: Vec<(i64, i64)> = closing_merge_requests::Entity::find()
        .select_only()
        .column(closing_merge_requests::Column::IssueId)
        .column_as(closing_merge_requests::Column::Id.count(), "seen")
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
    for issue in &mut found {
        let seen = counts.get(&issue.id).copied().unwrap_or_default();
        issue.merge_requests_count = i32::try_from(seen).unwrap_or(i32::MAX);
    }
    Ok(found)
}

/// Removes the references to moved issues that the viewer cannot see.
async fn moved_for(
    db: &impl ConnectionTrait,
    viewer: Viewer,
    mut found: Vec<issues::Model>,
) -> Result<Vec<issues::Model>> {
    let moved: Vec<i64> = found.iter().filter_map(|issue| issue.moved_to_id).collect();
    if moved.is_empty() || viewer == Viewer::Admin {
        return Ok(found);
    }
    let seen: Vec<i64> = issues::Entity::find()
        .select_only()
        .column(issues::Column::Id)
        .filter(issues::Column::Id.is_in(moved))
        .filter(issues::visible(viewer, now().date_naive()))
        .into_tuple()
        .all(db)
        .await?;
    for issue in &mut found {
        issue.moved_to_id = issue.moved_to_id.filter(|id| seen.contains(id));
    }
    Ok(found)
}

/// Combines issues with their related rows. Issues whose project was deleted meanwhile are left out.
pub(crate) fn rows(found: Vec<issues::Model>, mut all: Belongings) -> Vec<Row> {
    let rows = found.into_iter().filter_map(|issue| {
        Some(Row {
            project_path: all.path(&issue)?,
            author: all.person(issue.author_id),
            closed_by: all.person(issue.closed_by_id),
            assignees: all.assignees(&issue),
            labels: all.labels(&issue),
            milestone: all.milestone(&issue),
            subscribed: None,
            issue,
        })
    });
    rows.collect()
}
