//! Common parts of requests for lists of issues and merge requests.

use domain::kernel::error::{Error, Result};
use domain::planning::issuables::{Conditions, Scope};

use contract::IssueNot;

/// Filters of all lists of issues and merge requests.
macro_rules! shared {
    ($request:expr) => {
        domain::planning::issuables::Filter {
            scope: $request
                .scope
                .map(crate::handlers::issuables::scope)
                .transpose()?,
            wanted: domain::planning::issuables::Conditions {
                labels: $request.labels.unwrap_or_default(),
                milestone: $request.milestone.and_then(crate::handlers::issuables::said),
                author_id: $request.author_id,
                author_username: $request
                    .author_username
                    .and_then(crate::handlers::issuables::said),
                assignee_id: $request.assignee_id.and_then(crate::handlers::issuables::said),
                assignee_usernames: $request
                    .assignee_username
                    .into_iter()
                    .flatten()
                    .filter_map(crate::handlers::issuables::said)
                    .collect(),
                my_reaction_emoji: $request
                    .my_reaction_emoji
                    .and_then(crate::handlers::issuables::said),
                iids: $request.iids,
                search: $request.search,
                fields: $request.r#in,
            },
            unwanted: $request
                .not
                .map(crate::handlers::issuables::conditions)
                .unwrap_or_default(),
            created_after: $request.created_after.map(contract::timestamp::Timestamp::to_utc),
            created_before: $request
                .created_before
                .map(contract::timestamp::Timestamp::to_utc),
            updated_after: $request.updated_after.map(contract::timestamp::Timestamp::to_utc),
            updated_before: $request
                .updated_before
                .map(contract::timestamp::Timestamp::to_utc),
            ascending: $request.sort == Some(contract::SortDirection::Asc),
            ..domain::planning::issuables::Filter::default()
        }
    };
}
pub(super) use shared;

/// Parses the scope of a list. Each value has two spellings, which cannot be an enumeration of the contract,
/// because client generators would give both the same name.
pub(super) fn scope(scope: String) -> Result<Scope> {
    match scope.replace('-', "_").as_str() {
        "created_by_me" => Ok(Scope::CreatedByMe),
        "assigned_to_me" => Ok(Scope::AssignedToMe),
        "all" => Ok(Scope::All),
        _ => Err(Error::parameter("scope does not have a valid value")),
    }
}

/// Returns a filter text unless it is blank.
pub(super) fn said(text: String) -> Option<String> {
    Some(text).filter(|text| !text.trim().is_empty())
}

/// Returns the filters that exclude matching issues.
pub(super) fn conditions(not: IssueNot) -> Conditions {
    Conditions {
        labels: not.labels.unwrap_or_default(),
        milestone: not.milestone,
        author_id: not.author_id,
        author_username: not.author_username,
        assignee_id: not.assignee_id,
        assignee_usernames: not.assignee_username.unwrap_or_default(),
        my_reaction_emoji: not.my_reaction_emoji,
        iids: not.iids,
        search: not.search,
        fields: not.r#in,
    }
}
