//! Common parts of requests for lists of issues and merge requests.

use domain::kernel::error::{Error, Result};
use domain::planning::issuables::{Conditions, Filter, Scope};

use contract::timestamp::Timestamp;
use contract::{IssuableFilter, IssueNot, SortDirection};

/// Returns the filter of a list of issues or merge requests.
///
/// # Errors
/// [`Error::InvalidParameters`] for an unknown scope.
pub(crate) fn issuable_filter(filter: IssuableFilter) -> Result<Filter> {
    Ok(Filter {
        scope: filter.scope.map(scope).transpose()?,
        wanted: Conditions {
            labels: filter.labels.unwrap_or_default(),
            milestone: filter.milestone.and_then(said),
            author_id: filter.author_id,
            author_username: filter.author_username.and_then(said),
            assignee_id: filter.assignee_id.and_then(said),
            assignee_usernames: filter
                .assignee_username
                .into_iter()
                .flatten()
                .filter_map(said)
                .collect(),
            my_reaction_emoji: filter.my_reaction_emoji.and_then(said),
            iids: filter.iids,
            search: filter.search,
            fields: filter.r#in,
        },
        unwanted: filter.not.map(conditions).unwrap_or_default(),
        created_after: filter.created_after.map(Timestamp::to_utc),
        created_before: filter.created_before.map(Timestamp::to_utc),
        updated_after: filter.updated_after.map(Timestamp::to_utc),
        updated_before: filter.updated_before.map(Timestamp::to_utc),
        ascending: filter.sort == Some(SortDirection::Asc),
        ..Filter::default()
    })
}

/// Parses the scope of a list. Each value has two spellings, which cannot be an enumeration of the contract,
/// because client generators would give both the same name.
pub(crate) fn scope(scope: String) -> Result<Scope> {
    match scope.replace('-', "_").as_str() {
        "created_by_me" => Ok(Scope::CreatedByMe),
        "assigned_to_me" => Ok(Scope::AssignedToMe),
        "all" => Ok(Scope::All),
        _ => Err(Error::parameter("scope does not have a valid value")),
    }
}

/// Returns a filter text unless it is blank.
pub(crate) fn said(text: String) -> Option<String> {
    Some(text).filter(|text| !text.trim().is_empty())
}

/// Returns the filters that exclude matching issues.
pub(crate) fn conditions(not: IssueNot) -> Conditions {
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
