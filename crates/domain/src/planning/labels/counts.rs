//! Numbers of issues and merge requests with labels that are visible to a caller.

use std::collections::HashMap;

use chrono::NaiveDate;
use sea_orm::sea_query::{Asterisk, Expr, ExprTrait, Func, JoinType, Query};
use sea_orm::{ActiveEnum, ColumnTrait, Condition, DbBackend};
use storage::entities::projects::Column as Project;
use storage::entities::related_rows::{PartKey, RelatedPart, RelatedRowSets, RelatedRows};
use storage::entities::row_conditions::is_among;
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

/// The parts of a statement with the counts of labels.
pub(super) struct CountParts {
    issues: PartKey,
    merge_requests: PartKey,
}

impl CountParts {
    /// Adds the parts for labels in a project or group.
    pub fn add(related: &mut RelatedRows, database: DbBackend, space: &SpaceAccess, ids: &[i64]) -> Self {
        let today = now().date_naive();
        let parts = (!ids.is_empty()).then(|| {
            let issues = issue_counts(space, database, ids, today);
            (issues, merge_request_counts(space, database, ids, today))
        });
        let (issues, merge_requests) = parts.unzip();
        Self {
            issues: related.add(issues),
            merge_requests: related.add(merge_requests),
        }
    }

    /// Returns the counts by label ID. Labels without issues and merge requests are absent.
    ///
    /// # Errors
    /// Returns an error if a state is unknown.
    pub fn take(self, rows: &mut RelatedRowSets) -> Result<HashMap<i64, LabelCounts>> {
        let mut counts: HashMap<i64, LabelCounts> = HashMap::new();
        for row in rows.take(self.issues) {
            let [state, ..] = row.texts;
            let number = row.number.unwrap_or_default();
            let label_counts = counts.entry(row.owner_id).or_default();
            match issues::IssueState::try_from_value(&state.unwrap_or_default())? {
                issues::IssueState::Opened => label_counts.open_issues = number,
                issues::IssueState::Closed => label_counts.closed_issues = number,
            }
        }
        for row in rows.take(self.merge_requests) {
            let number = row.number.unwrap_or_default();
            counts.entry(row.owner_id).or_default().open_merge_requests = number;
        }
        Ok(counts)
    }
}

fn issue_counts(space: &SpaceAccess, database: DbBackend, ids: &[i64], today: NaiveDate) -> RelatedPart {
    use issue_labels::Column as Assignment;
    use issues::Column as Issue;

    let issue_of_assignment =
        Expr::col((issues::Entity, Issue::Id)).eq(Expr::col((ASSIGNMENTS, Assignment::IssueId)));
    let in_scope = match space.scope() {
        Scope::Project(id) => Issue::ProjectId.eq(id),
        Scope::Group(id) => issues::in_projects(projects_below(id)),
    };
    let label_id = || Expr::col((ASSIGNMENTS, Assignment::LabelId));
    let rows = Query::select()
        .from_as(issue_labels::Entity, ASSIGNMENTS)
        .join(JoinType::InnerJoin, issues::Entity, issue_of_assignment)
        .and_where(is_among(database, label_id(), ids.iter().copied()))
        .and_where(in_scope)
        .cond_where(issues::visible(space.caller.viewer(), today))
        .group_by_col((ASSIGNMENTS, Assignment::LabelId))
        .group_by_col((issues::Entity, Issue::State))
        .take();
    RelatedPart::new(rows, label_id())
        .with_number(Func::count(Expr::col(Asterisk)).into())
        .with_texts([Issue::State.into_expr()])
}

/// Matches projects of a group and its subgroups.
fn projects_below(group_id: i64) -> Condition {
    let groups = namespace_ancestors::at_or_below(group_id);
    Condition::all().add(Project::NamespaceId.in_subquery(groups))
}

fn merge_request_counts(
    space: &SpaceAccess,
    database: DbBackend,
    ids: &[i64],
    today: NaiveDate,
) -> RelatedPart {
    use merge_request_labels::Column as Assignment;
    use merge_requests::Column as MergeRequest;

    let merge_request_of_assignment = Expr::col((merge_requests::Entity, MergeRequest::Id))
        .eq(Expr::col((ASSIGNMENTS, Assignment::MergeRequestId)));
    let in_scope = match space.scope() {
        Scope::Project(id) => MergeRequest::TargetProjectId.eq(id),
        Scope::Group(id) => merge_requests::in_projects(projects_below(id)),
    };
    let label_id = || Expr::col((ASSIGNMENTS, Assignment::LabelId));
    let rows = Query::select()
        .from_as(merge_request_labels::Entity, ASSIGNMENTS)
        .join(
            JoinType::InnerJoin,
            merge_requests::Entity,
            merge_request_of_assignment,
        )
        .and_where(is_among(database, label_id(), ids.iter().copied()))
        .and_where(MergeRequest::State.eq(merge_requests::MergeRequestState::Opened))
        .and_where(in_scope)
        .cond_where(merge_requests::visible(space.caller.viewer(), today))
        .group_by_col((ASSIGNMENTS, Assignment::LabelId))
        .take();
    RelatedPart::new(rows, label_id()).with_number(Func::count(Expr::col(Asterisk)).into())
}
