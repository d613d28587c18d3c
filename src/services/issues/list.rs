//! Lists of issues: what is asked of issues alone, and their orders (specification 4.4).

use sea_orm::{ColumnTrait, Condition, ExprTrait};
use storage::entities::issues::{self, Column, Entity};
use storage::entities::now;

use super::row::{Row, decorate};
use crate::error::{Error, Result};
use crate::policy::Tier;
use crate::services::Backend;
use crate::services::authentication::Caller;
use crate::services::issuables::list::{Ordering, Presence, Sieve, Sieves, absent, numbered, page_of};
use crate::services::issuables::{self, Kind, Place};
use crate::services::kernel::page::{Page, PageRequest};

/// What issues are ordered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// When they were made.
    #[default]
    CreatedAt,
    /// When they were changed.
    UpdatedAt,
    /// The day the milestone is due, and then the rank of the labels.
    Priority,
    /// The day they are due.
    DueDate,
    /// Where they stand on boards; only going up.
    RelativePosition,
    /// The rank of the labels.
    LabelPriority,
    /// The day the milestone is due.
    MilestoneDue,
    /// How many users awarded `thumbsup`.
    Popularity,
    /// How much they weigh.
    Weight,
}

/// Which issues are wanted; all conditions hold together. The names are those of the contract.
#[allow(missing_docs)]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// What is asked of merge requests, too.
    pub shared: issuables::Filter,
    pub state: Option<issues::State>,
    pub weight: Option<String>,
    pub confidential: Option<bool>,
    pub order: Order,
}

/// One page of issues.
///
/// # Errors
/// 400 for conditions that exclude each other or do not do.
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
    let page = page_of::<Entity>(db, Kind::Issue, visible, sieves, filter.ordering(), page).await?;
    Ok(Page {
        items: decorate(db, caller.viewer(), page.items).await?,
        rest: page.rest,
    })
}

/// Everything that a filter asks for.
fn sieves(backend: &Backend, caller: &Caller, place: Place, filter: &Filter) -> Result<Sieves> {
    let mut faults = issuables::list::faults(backend, &filter.shared);
    let weight = filter
        .weight
        .as_deref()
        .filter(|_| backend.instance.plan >= Tier::Starter);
    let weight = weight.and_then(|text| numbered(text, "weight", "an integer", &mut faults));
    if !faults.is_empty() {
        return Err(Error::InvalidParameters(faults));
    }
    let mut sieves = issuables::list::sieves(backend, caller, Kind::Issue, place, &filter.shared)?;
    if let Some(state) = filter.state {
        sieves.narrow(Condition::all().add(Column::State.eq(state)));
    }
    if let Some(confidential) = filter.confidential {
        let condition = Condition::all().add(Column::Confidential.eq(confidential));
        sieves.add(Sieve::of_things(Kind::Issue, condition.clone(), condition));
    }
    match weight {
        None => {}
        Some(Presence::None) => sieves.test(absent(Kind::Issue.column("weight"))),
        Some(Presence::Any) => sieves.add(Sieve::of_number(Kind::Issue, "weight", |column| {
            column.is_not_null()
        })),
        Some(Presence::Is(weight)) => {
            sieves.add(Sieve::of_number(Kind::Issue, "weight", |column| {
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
            // A position means something only from the first to the last.
            Order::RelativePosition if !ascending => &[],
            Order::RelativePosition => &["relative_position"],
            // Which of those that are due at once comes first is free, and this order has an index.
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
