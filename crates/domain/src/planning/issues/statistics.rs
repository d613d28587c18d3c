//! Numbers of issues by state.

use storage::entities::issues::{self, IssueState};
use storage::entities::now;

use super::list::{IssueFilter, conditions};
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::Result;
use crate::planning::issuables::list::{SortOrder, count_each};
use crate::planning::issuables::{IssuableKind, ListScope};

/// Numbers of issues by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StateCounts {
    /// Number of open issues.
    pub opened: i64,
    /// Number of closed issues.
    pub closed: i64,
}

/// Counts the visible issues that match a filter, by state. The state of the filter is ignored.
///
/// # Errors
/// Returns `Error::InvalidParameters` if a filter is invalid or filters exclude each other.
pub async fn count_by_state(
    backend: &Backend,
    caller: &Caller,
    scope: ListScope,
    filter: &IssueFilter,
) -> Result<StateCounts> {
    let of_state = |state| {
        let filter = IssueFilter {
            state: Some(state),
            ..filter.clone()
        };
        conditions(backend, caller, scope, &filter)
    };
    let sets = [of_state(IssueState::Opened)?, of_state(IssueState::Closed)?];
    let visible = issues::visible(caller.viewer(), now().date_naive());
    let kind = IssuableKind::Issue;
    let [opened, closed] = count_each(
        backend.database.read(),
        kind,
        &visible,
        sets,
        SortOrder::BY_CREATION,
    )
    .await?;
    Ok(StateCounts { opened, closed })
}
