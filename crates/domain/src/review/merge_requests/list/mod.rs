//! Lists of merge requests: filters that apply only to merge requests, and sort orders.

mod deployments;
mod users;

use sea_orm::sea_query::{Expr, ExprTrait, Func};
use sea_orm::{ColumnTrait, Condition};
use storage::entities::access::projects_with_deployments;
use storage::entities::merge_requests::{self, Column, Entity, MergeRequestState};
use storage::entities::now;
use storage::entities::related_rows::RelatedRows;

pub use deployments::DeploymentFilter;
pub use users::{ApprovalFilter, ReviewerFilter};

use super::drafts::DRAFT_PREFIXES;
use super::row::{MergeRequestDetail, load_details};
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::query::starts_with_in;
use crate::planning::issuables::list::{
    ConditionSet, IndexedCondition, condition_set, filter_errors, page_of,
};
use crate::planning::issuables::{IssuableFilter, IssuableKind, IssuableOrder, ListScope};
use crate::planning::milestones;

/// Filter of a list of merge requests; conditions are combined with AND. The names are those of the contract.
#[allow(missing_docs)]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MergeRequestFilter {
    /// Filters that also apply to issues.
    pub shared: IssuableFilter,
    pub state: Option<MergeRequestState>,
    pub source_branch: Option<String>,
    pub target_branch: Option<String>,
    pub source_project_id: Option<i64>,
    /// Only drafts, or only merge requests that are not drafts.
    pub draft: Option<bool>,
    /// Reviewers of the merge requests.
    pub reviewer: ReviewerFilter,
    /// Reviewers whose merge requests are excluded.
    pub excluded_reviewer: ReviewerFilter,
    /// Users who have approved.
    pub approvals: ApprovalFilter,
    /// Deployments that shipped the merge requests.
    pub deployments: DeploymentFilter,
    pub order: IssuableOrder,
}

/// Lists merge requests.
///
/// # Errors
/// Returns a validation error for invalid or contradictory filters, and `Unauthorized` if a filter refers to
/// the caller of an anonymous request.
pub async fn list(
    backend: &Backend,
    caller: &Caller,
    scope: ListScope,
    filter: &MergeRequestFilter,
    page: &PageRequest,
) -> Result<Page<MergeRequestDetail>> {
    let db = backend.database.read();
    let conditions = conditions(backend, caller, scope, filter)?;
    let visible = merge_requests::visible(caller.viewer(), now().date_naive());
    let kind = IssuableKind::MergeRequest;
    let sort_order = filter.order.sort(filter.shared.ascending);
    let (found, total) = page_of::<Entity>(db, caller, kind, visible, conditions, sort_order, page).await?;
    let mut related = RelatedRows::default();
    let counted = related.add(total.part());
    let (items, mut rows) = load_details(db, caller, found, related).await?;
    let milestones = items.iter().filter_map(|detail| detail.milestone.as_deref());
    milestones::reserve_descriptions(caller, milestones)?;
    Ok(Page {
        items,
        rest: total.position(&rows.take(counted)),
    })
}

/// Returns all conditions of a filter.
fn conditions(
    backend: &Backend,
    caller: &Caller,
    scope: ListScope,
    filter: &MergeRequestFilter,
) -> Result<ConditionSet> {
    let mut errors = filter_errors(backend, &filter.shared);
    let reviewer = filter.reviewer.parse("", &mut errors);
    let excluded_reviewer = filter.excluded_reviewer.parse("not", &mut errors);
    let approvers = filter.approvals.parse(&mut errors);
    if !errors.is_empty() {
        return Err(Error::InvalidParameters(errors.into()));
    }
    let mut set = condition_set(backend, caller, IssuableKind::MergeRequest, scope, &filter.shared)?;
    let all = |expr: Expr| Condition::all().add(expr);
    if let Some(state) = filter.state {
        let order = filter.order.sort(filter.shared.ascending);
        set.add_state(all(Column::State.eq(state)), order);
    }
    for (column, name) in [
        (Column::SourceBranch, &filter.source_branch),
        (Column::TargetBranch, &filter.target_branch),
    ] {
        if let Some(name) = name {
            // For the row-by-row test the column is wrapped in an expression, so that the planner uses no
            // index.
            let unindexed = Func::coalesce([column.into_expr(), Expr::val("")]);
            let test = all(Expr::expr(unindexed).eq(name.as_str()));
            set.add(IndexedCondition::on_row(
                IssuableKind::MergeRequest,
                all(column.eq(name.as_str())),
                test,
            ));
        }
    }
    if let Some(id) = filter.source_project_id {
        set.add(IndexedCondition::on_number(
            IssuableKind::MergeRequest,
            "source_project_id",
            |column| column.eq(id),
        ));
    }
    users::add_reviewer(reviewer, &mut set);
    users::exclude_reviewer(excluded_reviewer, &mut set);
    for approvers in approvers {
        users::add_approvers(approvers, &mut set);
    }
    filter.deployments.add_to(scope, &mut set);
    if filter.deployments.reads_deployments() {
        let readable = projects_with_deployments(caller.viewer(), now().date_naive());
        set.add_test(all(merge_requests::in_projects(readable)));
    }
    match filter.draft {
        None => {}
        Some(true) => set.add_test(is_draft()),
        Some(false) => set.add_test(is_draft().not()),
    }
    Ok(set)
}

/// Condition equivalent to [`super::is_draft`].
fn is_draft() -> Condition {
    let title = || Expr::expr(Func::lower(Column::Title.into_expr()));
    let conditions = DRAFT_PREFIXES
        .iter()
        .map(|prefix| starts_with_in(title(), prefix));
    conditions.fold(Condition::any(), Condition::add)
}
