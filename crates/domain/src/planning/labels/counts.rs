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
pub struct Counts {
    /// Open issues.
    pub open_issues: i64,
    /// Closed issues.
    pub closed_issues: i64,
    /// Open merge requests.
    pub open_merge_requests: i64,
}

const CARRIED: &str = "carried";

/// Returns the counts in a project or group by label ID. Labels without any are absent.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn of(db: &impl ConnectionTrait, place: &SpaceAccess, ids: &[i64]) -> Result<HashMap<i64, Counts>> {
    let mut counts: HashMap<i64, Counts> = HashMap::new();
    if ids.is_empty() {
        return Ok(counts);
    }
    let (viewer, today) = (place.caller.viewer(), now().date_naive());
    for row in db.query_all(&issues_with(place, ids, viewer, today)).await? {
        let (label, state, number) = (
            row.try_get("", "label_id")?,
            row.try_get("", "state")?,
            row.try_get("", "number")?,
        );
        let counted = counts.entry(label).or_default();
        match state {
            issues::IssueState::Opened => counted.open_issues = number,
            issues::IssueState::Closed => counted.closed_issues = number,
        }
    }
    for row in db
        .query_all(&merge_requests_with(place, ids, viewer, today))
        .await?
    {
        let label = row.try_get("", "label_id")?;
        counts.entry(label).or_default().open_merge_requests = row.try_get("", "number")?;
    }
    Ok(counts)
}

fn issues_with(place: &SpaceAccess, ids: &[i64], viewer: Viewer, today: NaiveDate) -> SelectStatement {
    use issue_labels::Column as Carried;
    use issues::Column as Issue;

    let of_issue = Expr::col((issues::Entity, Issue::Id)).eq(Expr::col((CARRIED, Carried::IssueId)));
    let here = match place.scope() {
        Scope::Project(id) => Issue::ProjectId.eq(id),
        Scope::Group(id) => issues::in_projects(below(id)),
    };
    Query::select()
        .column((CARRIED, Carried::LabelId))
        .column((issues::Entity, Issue::State))
        .expr_as(Func::count(Expr::col(Asterisk)), "number")
        .from_as(issue_labels::Entity, CARRIED)
        .join(JoinType::InnerJoin, issues::Entity, of_issue)
        .and_where(Expr::col((CARRIED, Carried::LabelId)).is_in(ids.iter().copied()))
        .and_where(here)
        .cond_where(issues::visible(viewer, today))
        .group_by_col((CARRIED, Carried::LabelId))
        .group_by_col((issues::Entity, Issue::State))
        .take()
}

/// Matches projects of a group and its subgroups.
fn below(group_id: i64) -> Condition {
    let groups = namespace_ancestors::at_or_below(group_id);
    Condition::all().add(Project::NamespaceId.in_subquery(groups))
}

fn merge_requests_with(
    place: &SpaceAccess,
    ids: &[i64],
    viewer: Viewer,
    today: NaiveDate,
) -> SelectStatement {
    use merge_request_labels::Column as Carried;
    use merge_requests::Column as Request;

    let of_request =
        Expr::col((merge_requests::Entity, Request::Id)).eq(Expr::col((CARRIED, Carried::MergeRequestId)));
    let here = match place.scope() {
        Scope::Project(id) => Request::TargetProjectId.eq(id),
        Scope::Group(id) => merge_requests::in_projects(below(id)),
    };
    Query::select()
        .column((CARRIED, Carried::LabelId))
        .expr_as(Func::count(Expr::col(Asterisk)), "number")
        .from_as(merge_request_labels::Entity, CARRIED)
        .join(JoinType::InnerJoin, merge_requests::Entity, of_request)
        .and_where(Expr::col((CARRIED, Carried::LabelId)).is_in(ids.iter().copied()))
        .and_where(Request::State.eq(merge_requests::MergeRequestState::Opened))
        .and_where(here)
        .cond_where(merge_requests::visible(viewer, today))
        .group_by_col((CARRIED, Carried::LabelId))
        .take()
}
