//! Lists of issues: their own filters and sort orders.

use sea_orm::{ColumnTrait, Condition, ExprTrait};
use storage::entities::issues::{self, Column, Entity};
use storage::entities::now;
use storage::entities::related_rows::RelatedRows;

use super::row::{IssueDetail, load_details};
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::policy::InstancePlan;
use crate::planning::issuables::list::{
    ConditionSet, IndexedCondition, Presence, SortOrder, condition_set, filter_errors, is_null, page_of,
    parse_number,
};
use crate::planning::issuables::{IssuableFilter, IssuableKind, IssuableOrder, ListScope};
use crate::planning::milestones;

/// Sort attribute of issues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IssueOrder {
    /// An attribute that merge requests have, too.
    Shared(IssuableOrder),
    /// Due date.
    DueDate,
    /// Position on boards; ascending only.
    RelativePosition,
    /// Weight.
    Weight,
}

impl Default for IssueOrder {
    fn default() -> Self {
        Self::Shared(IssuableOrder::default())
    }
}

/// Filter of issues, combined with AND. The field names are those of the contract.
#[allow(missing_docs)]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IssueFilter {
    /// Filters shared with merge requests.
    pub shared: IssuableFilter,
    pub state: Option<issues::IssueState>,
    pub weight: Option<String>,
    pub confidential: Option<bool>,
    pub order: IssueOrder,
}

/// Returns a page of issues.
///
/// # Errors
/// Returns `Error::InvalidParameters` if a filter is invalid or filters exclude each other.
pub async fn list(
    backend: &Backend,
    caller: &Caller,
    scope: ListScope,
    filter: &IssueFilter,
    page: &PageRequest,
) -> Result<Page<IssueDetail>> {
    let db = backend.database.read();
    let conditions = conditions(backend, caller, scope, filter)?;
    let visible = issues::visible(caller.viewer(), now().date_naive());
    let (kind, order) = (IssuableKind::Issue, filter.sort_order());
    let (found, total) = page_of::<Entity>(db, caller, kind, visible, conditions, order, page).await?;
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

/// Returns the conditions of a filter.
///
/// # Errors
/// Returns `Error::InvalidParameters` if a filter is invalid or filters exclude each other.
pub(super) fn conditions(
    backend: &Backend,
    caller: &Caller,
    scope: ListScope,
    filter: &IssueFilter,
) -> Result<ConditionSet> {
    let mut errors = filter_errors(backend, &filter.shared);
    let weight = filter
        .weight
        .as_deref()
        .filter(|_| backend.instance.plan >= InstancePlan::Starter);
    let weight = weight.and_then(|text| parse_number(text, "weight", "an integer", &mut errors));
    if !errors.is_empty() {
        return Err(Error::InvalidParameters(errors.into()));
    }
    let mut set = condition_set(backend, caller, IssuableKind::Issue, scope, &filter.shared)?;
    if let Some(state) = filter.state {
        set.add_state(Condition::all().add(Column::State.eq(state)), filter.sort_order());
    }
    if let Some(confidential) = filter.confidential {
        let condition = Condition::all().add(Column::Confidential.eq(confidential));
        set.add(IndexedCondition::on_row(
            IssuableKind::Issue,
            condition.clone(),
            condition,
        ));
    }
    match weight {
        None => {}
        Some(Presence::None) => set.add_test(is_null(IssuableKind::Issue.column("weight"))),
        Some(Presence::Any) => set.add(IndexedCondition::on_number(
            IssuableKind::Issue,
            "weight",
            |column| column.is_not_null(),
        )),
        Some(Presence::Is(weight)) => {
            set.add(IndexedCondition::on_number(
                IssuableKind::Issue,
                "weight",
                |column| column.eq(weight),
            ));
        }
    }
    Ok(set)
}

impl IssueFilter {
    fn sort_order(&self) -> SortOrder {
        let ascending = self.shared.ascending;
        let columns: &[&str] = match self.order {
            IssueOrder::Shared(order) => return order.sort(ascending),
            // Positions are only meaningful in ascending order.
            IssueOrder::RelativePosition if !ascending => &[],
            IssueOrder::RelativePosition => &["relative_position"],
            IssueOrder::DueDate => &["due_date"],
            IssueOrder::Weight => &["weight"],
        };
        SortOrder {
            columns,
            nullable: true,
            ascending,
        }
    }
}
