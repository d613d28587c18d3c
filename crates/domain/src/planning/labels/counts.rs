//! Numbers of issues and merge requests with labels that are visible to a caller.

use std::collections::HashMap;

use chrono::NaiveDate;
use sea_orm::sea_query::{Asterisk, Expr, ExprTrait, Func, JoinType, Query, SelectStatement};
use sea_orm::{ColumnTrait, Condition, ConnectionTrait};
use storage::entities::access::Viewer;
use storage::entities::projects::Column as Project;
use storage::entities::{
    Scope, issue_labels, issues, merge_request_labels, merge_requests, namespace_ancestors, now,
};

use crate::identity::space_access::SpaceAccess;
use crate::kernel::error::Result;

/// Numbers of issues and merge requests with a label.
#[derive(Debug, Clone, Copy, Default)]
pub struct LabelCounts {
    /// Open issues.
    pub open_issues: i64,
    /// Closed issues.
    pub closed_issues: i64,
    /// Open merge requests.
    pub open_merge_requests: i64,
}

/// Alias of the table that assigns labels.
const ASSIGNMENTS: &str = "assignments";

/// Returns the counts in a project or group by label ID. Labels without issues and merge requests are absent.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn by_label(
    db: &impl ConnectionTrait,
    space: &SpaceAccess,
    ids: &[i64],
) -> Result<HashMap<i64, LabelCounts>> {
    let mut counts: HashMap<i64, LabelCounts> = HashMap::new();
    if ids.is_empty() {
        return Ok(counts);
    }
    let (viewer, today) = (space.caller.viewer(), now().date_naive());
    for row in db.query_all(&issue_counts(space, ids, viewer, today)).await? {
        let (label, state, number) = (
            row.try_get("", "label_id")?,
            row.try_get("", "state")?,
            row.try_get("", "number")?,
        );
        let label_counts = counts.entry(label).or_default();
        match state {
            issues::IssueState::Opened => label_counts.open_issues = number,
            issues::IssueState::Closed => label_counts.closed_issues = number,
        }
    }
    for row in db
        .query_all(&merge_request_counts(space, ids, viewer, today))
        .await?
    {
        let label = row.try_get("", "label_id")?;
        counts.entry(label).or_default().open_merge_requests = row.try_get("", "number")?;
    }
    Ok(counts)
}

fn issue_counts(space: &SpaceAccess, ids: &[i64], viewer: Viewer, today: NaiveDate) -> SelectStatement {
    use issue_labels::Column as Assignment;
    use issues::Column as Issue;

    let issue_of_assignment =
        Expr::col((issues::Entity, Issue::Id)).eq(Expr::col((ASSIGNMENTS, Assignment::IssueId)));
    let in_scope = match space.scope() {
        Scope::Project(id) => Issue::ProjectId.eq(id),
        Scope::Group(id) => issues::in_projects(projects_below(id)),
    };
    Query::select()
        .column((ASSIGNMENTS, Assignment::LabelId))
        .column((issues::Entity, Issue::State))
        .expr_as(Func::count(Expr::col(Asterisk)), "number")
        .from_as(issue_labels::Entity, ASSIGNMENTS)
        .join(JoinType::InnerJoin, issues::Entity, issue_of_assignment)
        .and_where(Expr::col((ASSIGNMENTS, Assignment::LabelId)).is_in(ids.iter().copied()))
        .and_where(in_scope)
        .cond_where(issues::visible(viewer, today))
        .group_by_col((ASSIGNMENTS, Assignment::LabelId))
        .group_by_col((issues::Entity, Issue::State))
        .take()
}

/// Matches projects of a group and its subgroups.
fn projects_below(group_id: i64) -> Condition {
    let groups = namespace_ancestors::at_or_below(group_id);
    Condition::all().add(Project::NamespaceId.in_subquery(groups))
}

fn merge_request_counts(
    space: &SpaceAccess,
    ids: &[i64],
    viewer: Viewer,
    today: NaiveDate,
) -> SelectStatement {
    use merge_request_labels::Column as Assignment;
    use merge_requests::Column as MergeRequest;

    let merge_request_of_assignment = Expr::col((merge_requests::Entity, MergeRequest::Id))
        .eq(Expr::col((ASSIGNMENTS, Assignment::MergeRequestId)));
    let in_scope = match space.scope() {
        Scope::Project(id) => MergeRequest::TargetProjectId.eq(id),
        Scope::Group(id) => merge_requests::in_projects(projects_below(id)),
    };
    Query::select()
        .column((ASSIGNMENTS, Assignment::LabelId))
        .expr_as(Func::count(Expr::col(Asterisk)), "number")
        .from_as(merge_request_labels::Entity, ASSIGNMENTS)
        .join(
            JoinType::InnerJoin,
            merge_requests::Entity,
            merge_request_of_assignment,
        )
        .and_where(Expr::col((ASSIGNMENTS, Assignment::LabelId)).is_in(ids.iter().copied()))
        .and_where(MergeRequest::State.eq(merge_requests::MergeRequestState::Opened))
        .and_where(in_scope)
        .cond_where(merge_requests::visible(viewer, today))
        .group_by_col((ASSIGNMENTS, Assignment::LabelId))
        .take()
}
