//! Lists of issues: their own filters and sort orders.

use sea_orm::{ColumnTrait, Condition, ExprTrait};
use storage::entities::issues::{self, Column, Entity};
use storage::entities::now;

use super::row::{Row, decorate};
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::policy::InstancePlan;
use crate::planning::issuables::list::{Ordering, Presence, Sieve, Sieves, absent, numbered, page_of};
use crate::planning::issuables::{self, IssuableKind, Place};

/// Sort order of issues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// By time of creation.
    #[default]
    CreatedAt,
    /// By time of the last change.
    UpdatedAt,
    /// By due date of the milestone, and then by label priority.
    Priority,
    /// By due date.
    DueDate,
    /// By position on boards; ascending only.
    RelativePosition,
    /// By label priority.
    LabelPriority,
    /// By due date of the milestone.
    MilestoneDue,
    /// By number of `thumbsup` award emoji.
    Popularity,
    /// By weight.
    Weight,
}

/// Filter of issues, combined with AND. The field names are those of the contract.
#[allow(missing_docs)]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Filters shared with merge requests.
    pub shared: issuables::Filter,
    pub state: Option<issues::IssueState>,
    pub weight: Option<String>,
    pub confidential: Option<bool>,
    pub order: Order,
}

/// Returns a page of issues.
///
/// # Errors
/// Returns `Error::InvalidParameters` if a filter is invalid or filters exclude each other.
pub async fn list(
    backend: &Backend,
    caller: &Caller,
    place: Place,
    filter: &Filter,
    page: &PageRequest,
) -> Result<Page<Row>> {
    let db = backend.database.read();
    let sieves = sieves(backend, caller, place, filter)?;
    let visible = issues::visible(caller.viewer(), now().date_naive());
    let page = page_of::<Entity>(db, IssuableKind::Issue, visible, sieves, filter.ordering(), page).await?;
    Ok(Page {
        items: decorate(db, caller.viewer(), page.items).await?,
        rest: page.rest,
    })
}

/// Returns the conditions of a filter.
fn sieves(backend: &Backend, caller: &Caller, place: Place, filter: &Filter) -> Result<Sieves> {
    let mut faults = issuables::list::faults(backend, &filter.shared);
    let weight = filter
        .weight
        .as_deref()
        .filter(|_| backend.instance.plan >= InstancePlan::Starter);
    let weight = weight.and_then(|text| numbered(text, "weight", "an integer", &mut faults));
    if !faults.is_empty() {
        return Err(Error::InvalidParameters(faults));
    }
    let mut sieves = issuables::list::sieves(backend, caller, IssuableKind::Issue, place, &filter.shared)?;
    if let Some(state) = filter.state {
        sieves.narrow(Condition::all().add(Column::State.eq(state)));
    }
    if let Some(confidential) = filter.confidential {
        let condition = Condition::all().add(Column::Confidential.eq(confidential));
        sieves.add(Sieve::of_things(
            IssuableKind::Issue,
            condition.clone(),
            condition,
        ));
    }
    match weight {
        None => {}
        Some(Presence::None) => sieves.test(absent(IssuableKind::Issue.column("weight"))),
        Some(Presence::Any) => sieves.add(Sieve::of_number(IssuableKind::Issue, "weight", |column| {
            column.is_not_null()
        })),
        Some(Presence::Is(weight)) => {
            sieves.add(Sieve::of_number(IssuableKind::Issue, "weight", |column| {
                column.eq(weight)
            }));
        }
    }
    Ok(sieves)
}

impl Filter {
    fn ordering(&self) -> Ordering {
        let ascending = self.shared.ascending;
        let columns: &[&str] = match self.order {
            Order::CreatedAt => &["created_at"],
            Order::UpdatedAt => &["updated_at"],
            // Positions are only meaningful in ascending order.
            Order::RelativePosition if !ascending => &[],
            Order::RelativePosition => &["relative_position"],
            // The order of issues with the same due date is unspecified, and this one has an index.
            Order::Priority | Order::MilestoneDue => &["milestone_due_on", "label_priority"],
            Order::DueDate => &["due_date"],
            Order::LabelPriority => &["label_priority"],
            Order::Popularity => &["upvotes"],
            Order::Weight => &["weight"],
        };
        Ordering {
            columns,
            nullable: !matches!(self.order, Order::CreatedAt | Order::UpdatedAt),
            ascending,
        }
    }
}
