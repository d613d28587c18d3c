//! Lists of merge requests: what is asked of merge requests alone, and their orders (by analogy with specification 4.4).

use sea_orm::sea_query::{Expr, ExprTrait, Func};
use sea_orm::{ColumnTrait, Condition};
use storage::entities::merge_requests::{self, Column, Entity, State};
use storage::entities::now;

use super::drafts::MARKS;
use super::row::{Row, decorate};
use crate::error::{Error, Result};
use crate::services::Backend;
use crate::services::authentication::Caller;
use crate::services::issuables::list::{Ordering, Sieve, Sieves, page_of};
use crate::services::issuables::{self, Kind, Place};
use crate::services::kernel::page::{Page, PageRequest};
use crate::services::listing::begins;

/// The table of what was shipped with deployments.
const SHIPPED: &str = "deployment_merge_requests";

/// What merge requests are ordered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// When they were made.
    #[default]
    CreatedAt,
    /// When they were changed.
    UpdatedAt,
    /// The day the milestone is due, and then the rank of the labels.
    Priority,
    /// The rank of the labels.
    LabelPriority,
    /// The day the milestone is due.
    MilestoneDue,
    /// How many users awarded `thumbsup`.
    Popularity,
}

/// Which merge requests are wanted; all conditions hold together. The names are those of the contract.
#[allow(missing_docs)]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// What is asked of issues, too.
    pub shared: issuables::Filter,
    pub state: Option<State>,
    pub source_branch: Option<String>,
    pub target_branch: Option<String>,
    pub source_project_id: Option<i64>,
    /// Those whose titles say that they are not done, or the others.
    pub draft: Option<bool>,
    /// Those that were shipped with this deployment.
    pub deployment_id: Option<i64>,
    pub order: Order,
}

/// One page of merge requests.
///
/// # Errors
/// 400 for conditions that exclude each other or do not do, 401 where nobody is signed in and they are about the caller.
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
    let kind = Kind::MergeRequest;
    let page = page_of::<Entity>(db, kind, visible, sieves, filter.ordering(), page).await?;
    Ok(Page {
        items: decorate(db, page.items).await?,
        rest: page.rest,
    })
}

/// Everything that a filter asks for.
fn sieves(backend: &Backend, caller: &Caller, place: Place, filter: &Filter) -> Result<Sieves> {
    let faults = issuables::list::faults(backend, &filter.shared);
    if !faults.is_empty() {
        return Err(Error::InvalidParameters(faults));
    }
    let mut sieves = issuables::list::sieves(backend, caller, Kind::MergeRequest, place, &filter.shared)?;
    let all = |expr: Expr| Condition::all().add(expr);
    if let Some(state) = filter.state {
        sieves.narrow(all(Column::State.eq(state)));
    }
    for (column, name) in [
        (Column::SourceBranch, &filter.source_branch),
        (Column::TargetBranch, &filter.target_branch),
    ] {
        if let Some(name) = name {
            // Tried row by row it is the text of an expression, for which no index is chosen.
            let tried = Func::coalesce([column.into_expr(), Expr::val("")]);
            let test = all(Expr::expr(tried).eq(name.as_str()));
            sieves.add(Sieve::of_things(
                Kind::MergeRequest,
                all(column.eq(name.as_str())),
                test,
            ));
        }
    }
    if let Some(id) = filter.source_project_id {
        sieves.add(Sieve::of_number(
            Kind::MergeRequest,
            "source_project_id",
            |column| column.eq(id),
        ));
    }
    if let Some(id) = filter.deployment_id {
        let with = Expr::col((SHIPPED, "deployment_id")).eq(id);
        sieves.add(Sieve::rows(Kind::MergeRequest, SHIPPED, all(with)));
    }
    match filter.draft {
        None => {}
        Some(true) => sieves.test(is_draft()),
        Some(false) => sieves.test(is_draft().not()),
    }
    Ok(sieves)
}

/// What [`super::is_draft`] says of a title, as a condition.
fn is_draft() -> Condition {
    let title = || Expr::expr(Func::lower(Column::Title.into_expr()));
    let marked = MARKS.iter().map(|mark| begins(title(), mark));
    marked.fold(Condition::any(), Condition::add)
}

impl Filter {
    fn ordering(&self) -> Ordering {
        let columns: &[&str] = match self.order {
            Order::CreatedAt => &["created_at"],
            Order::UpdatedAt => &["updated_at"],
            // Which of those that are due at once comes first is free, and this order has an index.
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
