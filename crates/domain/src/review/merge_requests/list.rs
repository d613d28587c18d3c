//! Lists of merge requests: filters that apply only to merge requests, and sort orders.

use sea_orm::sea_query::{Expr, ExprTrait, Func};
use sea_orm::{ColumnTrait, Condition};
use storage::entities::merge_requests::{self, Column, Entity, MergeRequestState};
use storage::entities::now;

use super::drafts::MARKS;
use super::row::{Row, decorate};
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::query::starts_with_in;
use crate::planning::issuables::list::{Ordering, Sieve, Sieves, page_of};
use crate::planning::issuables::{self, IssuableKind, Place};

/// Table that links deployments to merge requests.
const SHIPPED: &str = "deployment_merge_requests";

/// Sort orders of merge requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Creation time.
    #[default]
    CreatedAt,
    /// Time of the last update.
    UpdatedAt,
    /// Due date of the milestone, then label priority.
    Priority,
    /// Label priority.
    LabelPriority,
    /// Due date of the milestone.
    MilestoneDue,
    /// Number of `thumbsup` award emoji.
    Popularity,
}

/// Filter of a list of merge requests; conditions are combined with AND. The names are those of the contract.
#[allow(missing_docs)]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Filters that also apply to issues.
    pub shared: issuables::Filter,
    pub state: Option<MergeRequestState>,
    pub source_branch: Option<String>,
    pub target_branch: Option<String>,
    pub source_project_id: Option<i64>,
    /// Only drafts, or only merge requests that are not drafts.
    pub draft: Option<bool>,
    /// Only merge requests of this deployment.
    pub deployment_id: Option<i64>,
    pub order: Order,
}

/// Lists merge requests.
///
/// # Errors
/// Returns a validation error for invalid or contradictory filters, and `Unauthorized` if a filter refers to
/// the caller of an anonymous request.
pub async fn list(
    backend: &Backend,
    caller: &Caller,
    place: Place,
    filter: &Filter,
    page: &PageRequest,
) -> Result<Page<Row>> {
    let db = backend.database.read();
    let sieves = sieves(backend, caller, place, filter)?;
    let visible = merge_requests::visible(caller.viewer(), now().date_naive());
    let kind = IssuableKind::MergeRequest;
    let page = page_of::<Entity>(db, kind, visible, sieves, filter.ordering(), page).await?;
    Ok(Page {
        items: decorate(db, page.items).await?,
        rest: page.rest,
    })
}

/// Returns all conditions of a filter.
fn sieves(backend: &Backend, caller: &Caller, place: Place, filter: &Filter) -> Result<Sieves> {
    let faults = issuables::list::faults(backend, &filter.shared);
    if !faults.is_empty() {
        return Err(Error::InvalidParameters(faults));
    }
    let mut sieves =
        issuables::list::sieves(backend, caller, IssuableKind::MergeRequest, place, &filter.shared)?;
    let all = |expr: Expr| Condition::all().add(expr);
    if let Some(state) = filter.state {
        sieves.narrow(all(Column::State.eq(state)));
    }
    for (column, name) in [
        (Column::SourceBranch, &filter.source_branch),
        (Column::TargetBranch, &filter.target_branch),
    ] {
        if let Some(name) = name {
            // For the row-by-row test the column is wrapped in an expression, so that the planner uses no
            // index.
            let tried = Func::coalesce([column.into_expr(), Expr::val("")]);
            let test = all(Expr::expr(tried).eq(name.as_str()));
            sieves.add(Sieve::of_things(
                IssuableKind::MergeRequest,
                all(column.eq(name.as_str())),
                test,
            ));
        }
    }
    if let Some(id) = filter.source_project_id {
        sieves.add(Sieve::of_number(
            IssuableKind::MergeRequest,
            "source_project_id",
            |column| column.eq(id),
        ));
    }
    if let Some(id) = filter.deployment_id {
        let with = Expr::col((SHIPPED, "deployment_id")).eq(id);
        sieves.add(Sieve::rows(IssuableKind::MergeRequest, SHIPPED, all(with)));
    }
    match filter.draft {
        None => {}
        Some(true) => sieves.test(is_draft()),
        Some(false) => sieves.test(is_draft().not()),
    }
    Ok(sieves)
}

/// Condition equivalent to [`super::is_draft`].
fn is_draft() -> Condition {
    let title = || Expr::expr(Func::lower(Column::Title.into_expr()));
    let marked = MARKS.iter().map(|mark| starts_with_in(title(), mark));
    marked.fold(Condition::any(), Condition::add)
}

impl Filter {
    fn ordering(&self) -> Ordering {
        let columns: &[&str] = match self.order {
            Order::CreatedAt => &["created_at"],
            Order::UpdatedAt => &["updated_at"],
            // The order within the same due date is unspecified, and this order has an index.
            Order::Priority | Order::MilestoneDue => &["milestone_due_on", "label_priority"],
            Order::LabelPriority => &["label_priority"],
            Order::Popularity => &["upvotes"],
        };
        Ordering {
            columns,
            nullable: !matches!(self.order, Order::CreatedAt | Order::UpdatedAt),
            ascending: self.shared.ascending,
        }
    }
}
