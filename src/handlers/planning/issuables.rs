//! Common parts of requests for lists of issues and merge requests.

use domain::kernel::error::{Error, Result};
use domain::planning::issuables::{IssuableConditions, IssuableFilter, IssuableScope};

use contract::IssueNot;
use contract::timestamp::Timestamp;

/// Returns the filter of a list of issues or merge requests.
///
/// # Errors
/// [`Error::InvalidParameters`] for an unknown scope.
pub(crate) fn issuable_filter(filter: contract::IssuableFilter) -> Result<IssuableFilter> {
    Ok(IssuableFilter {
        scope: filter.scope.map(parse_scope).transpose()?,
        include: IssuableConditions {
            labels: filter.labels.unwrap_or_default(),
            milestone: filter.milestone.and_then(non_blank),
            author_id: filter.author_id,
            author_username: filter.author_username.and_then(non_blank),
            assignee_id: filter.assignee_id.and_then(non_blank),
            assignee_usernames: filter
                .assignee_username
                .into_iter()
                .flatten()
                .filter_map(non_blank)
                .collect(),
            my_reaction_emoji: filter.my_reaction_emoji.and_then(non_blank),
            iids: filter.iids,
            search: filter.search,
            fields: filter.r#in,
        },
        exclude: filter.not.map(conditions).unwrap_or_default(),
        created_after: filter.created_after.map(Timestamp::to_utc),
        created_before: filter.created_before.map(Timestamp::to_utc),
        updated_after: filter.updated_after.map(Timestamp::to_utc),
        updated_before: filter.updated_before.map(Timestamp::to_utc),
        ..IssuableFilter::default()
    })
}

/// Parses the scope of a list. Each value has two spellings, which cannot be an enumeration of the contract,
/// because client generators would give both the same name.
fn parse_scope(scope: String) -> Result<IssuableScope> {
    match scope.replace('-', "_").as_str() {
        "created_by_me" => Ok(IssuableScope::CreatedByMe),
        "assigned_to_me" => Ok(IssuableScope::AssignedToMe),
        "all" => Ok(IssuableScope::All),
        _ => Err(Error::value_not_allowed(
            "scope",
            ["created_by_me", "assigned_to_me", "all"],
        )),
    }
}

/// Returns a filter text unless it is blank.
pub(crate) fn non_blank(text: String) -> Option<String> {
    Some(text).filter(|text| !text.trim().is_empty())
}

/// Returns the filters that exclude matching issues.
fn conditions(not: IssueNot) -> IssuableConditions {
    IssuableConditions {
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
