//! Issues with all that is shown of them, gathered in a handful of statements however many they are.

use std::collections::HashMap;

use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, JoinType, QueryFilter, QuerySelect, RelationTrait};
use storage::entities::access::Viewer;
use storage::entities::{closing_merge_requests, issues, labels, merge_requests, now, users};

use super::find;
use crate::error::{Error, Result};
use crate::services::Backend;
use crate::services::access::ProjectAccess;
use crate::services::authentication::Caller;
use crate::services::issuables::subscriptions::is_subscribed;
use crate::services::issuables::{Belongings, gather};
use crate::services::milestones as milestones_service;

/// An issue with what belongs to it.
#[derive(Debug, Clone)]
pub struct Row {
    /// The issue.
    pub issue: issues::Model,
    /// The whole path of its project.
    pub project_path: String,
    /// Who made it; nobody when the user is gone.
    pub author: Option<users::Model>,
    /// Who closed it; nobody when it is open or the user is gone.
    pub closed_by: Option<users::Model>,
    /// Those it is assigned to, in the order they were assigned.
    pub assignees: Vec<users::Model>,
    /// The labels, by title.
    pub labels: Vec<labels::Model>,
    /// The milestone.
    pub milestone: Option<milestones_service::Row>,
    /// Whether the caller is told of what happens to it; none in lists and without a caller.
    pub subscribed: Option<bool>,
}

/// One issue of a project.
///
/// # Errors
/// 404, also where the caller may not see it.
pub async fn read(backend: &Backend, access: &ProjectAccess, iid: i64) -> Result<Row> {
    let issue = find(backend.database.read(), access, iid).await?;
    of_one(backend, &access.caller, issue).await
}

/// One issue, with whether the caller is told of what happens to it.
///
/// # Errors
/// Whatever the database reports.
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

/// Adds what belongs to issues and is shown to the viewer, for the whole page at once.
///
/// # Errors
/// Whatever the database reports.
pub(in crate::services) async fn decorate(
    db: &impl ConnectionTrait,
    viewer: Viewer,
    found: Vec<issues::Model>,
) -> Result<Vec<Row>> {
    let found = seen_by(db, viewer, found).await?;
    let all = gather(db, &found, HashMap::new()).await?;
    Ok(rows(found, all))
}

/// The issues with what they tell of others as far as the viewer sees those: how many merge requests close them, and where they
/// were moved to.
///
/// # Errors
/// Whatever the database reports.
pub(in crate::services) async fn seen_by(
    db: &impl ConnectionTrait,
    viewer: Viewer,
    found: Vec<issues::Model>,
) -> Result<Vec<issues::Model>> {
    let found = counted_for(db, viewer, found).await?;
    moved_for(db, viewer, found).await
}

/// The issues with the number of the merge requests that close them and that the viewer sees: there may be others, of
/// private projects.
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

/// The issues with where they were moved to, as far as the viewer sees that.
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

/// Issues with what belongs to them; what went away since they were read is left out.
pub(in crate::services) fn rows(found: Vec<issues::Model>, mut all: Belongings) -> Vec<Row> {
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
