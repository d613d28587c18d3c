//! Conditions on the reviewers of merge requests and on the users who approved them.

use sea_orm::sea_query::Expr;
use sea_orm::{Condition, ExprTrait};
use storage::entities::issuables::{IssuableKind, REVIEWERS};

use crate::planning::issuables::list::{
    ConditionSet, IndexedCondition, Presence, parse_number, parse_presence, users_named,
};

/// Table of the approvals.
const APPROVALS: &str = "approvals";

/// Filter by reviewer. The names are those of the contract.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReviewerFilter {
    /// ID of the reviewer, or a keyword.
    pub reviewer_id: Option<String>,
    /// Username of the reviewer.
    pub reviewer_username: Option<String>,
}

/// Filter by the users who approved. The names are those of the contract.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApprovalFilter {
    /// IDs of users who all approved, or a keyword.
    pub approved_by_ids: Vec<String>,
    /// Usernames of users who all approved, or a keyword.
    pub approved_by_usernames: Vec<String>,
}

/// A user that a table links to merge requests.
#[derive(Debug, Clone, Copy)]
pub(super) enum LinkedUser<'a> {
    /// The user with this ID.
    Id(i64),
    /// The user with this username.
    Name(&'a str),
}

impl ReviewerFilter {
    /// Returns the selected reviewers, or none if the filter is empty or invalid. `prefix` is `not` for a filter that
    /// excludes merge requests.
    pub(super) fn parse(&self, prefix: &str, errors: &mut Vec<String>) -> Option<Presence<LinkedUser<'_>>> {
        let name = |name: &str| match prefix {
            "" => name.to_owned(),
            prefix => format!("{prefix}[{name}]"),
        };
        match (&self.reviewer_id, &self.reviewer_username) {
            (Some(_), Some(_)) => {
                errors.push(format!(
                    "{}, {} are mutually exclusive",
                    name("reviewer_id"),
                    name("reviewer_username")
                ));
                None
            }
            (Some(id), None) => match parse_number(id, &name("reviewer_id"), "an integer", errors)? {
                // As for assignees, the ID 0 means none.
                Presence::None | Presence::Is(0) => Some(Presence::None),
                Presence::Any => Some(Presence::Any),
                Presence::Is(id) => Some(Presence::Is(LinkedUser::Id(id))),
            },
            (None, Some(name)) => Some(Presence::Is(LinkedUser::Name(name))),
            (None, None) => None,
        }
    }
}

impl ApprovalFilter {
    /// Returns the users who must have approved, for each of the two lists.
    pub(super) fn parse(&self, errors: &mut Vec<String>) -> [Presence<Vec<LinkedUser<'_>>>; 2] {
        [
            match self.approved_by_ids.as_slice() {
                [id] => parse_approver(id, errors).unwrap_or(Presence::Is(Vec::new())),
                ids => Presence::Is(parse_approvers(ids, errors)),
            },
            match self.approved_by_usernames.as_slice() {
                [name] => match parse_presence(name) {
                    Presence::None => Presence::None,
                    Presence::Any => Presence::Any,
                    Presence::Is(name) => Presence::Is(vec![LinkedUser::Name(name)]),
                },
                names => Presence::Is(names.iter().map(|name| LinkedUser::Name(name)).collect()),
            },
        ]
    }
}

fn parse_approver<'a>(text: &str, errors: &mut Vec<String>) -> Option<Presence<Vec<LinkedUser<'a>>>> {
    Some(
        match parse_number(text, "approved_by_ids", "an array of integers", errors)? {
            Presence::None => Presence::None,
            Presence::Any => Presence::Any,
            Presence::Is(id) => Presence::Is(vec![LinkedUser::Id(id)]),
        },
    )
}

/// Parses several IDs. A keyword is not allowed among several values.
fn parse_approvers<'a>(texts: &[String], errors: &mut Vec<String>) -> Vec<LinkedUser<'a>> {
    let ids: Result<Vec<i64>, _> = texts.iter().map(|text| text.trim().parse()).collect();
    let Ok(ids) = ids else {
        errors.push("approved_by_ids should be an array of integers, 'None' or 'Any'".to_owned());
        return Vec::new();
    };
    ids.into_iter().map(LinkedUser::Id).collect()
}

/// Adds the condition on reviewers.
pub(super) fn add_reviewer(reviewer: Option<Presence<LinkedUser<'_>>>, set: &mut ConditionSet) {
    match reviewer {
        None => {}
        Some(Presence::None) => set.add_test(linked_to_any(REVIEWERS).not()),
        Some(Presence::Any) => set.add_test(linked_to_any(REVIEWERS)),
        Some(Presence::Is(user)) => set.add(linked_to(REVIEWERS, user)),
    }
}

/// Adds the negated condition on reviewers.
pub(super) fn exclude_reviewer(reviewer: Option<Presence<LinkedUser<'_>>>, set: &mut ConditionSet) {
    match reviewer {
        None => {}
        Some(Presence::None) => set.add_test(linked_to_any(REVIEWERS)),
        Some(Presence::Any) => set.add_test(linked_to_any(REVIEWERS).not()),
        Some(Presence::Is(user)) => set.exclude(linked_to(REVIEWERS, user)),
    }
}

/// Adds the condition on the users who approved: each of them is a condition of its own.
pub(super) fn add_approvers(approvers: Presence<Vec<LinkedUser<'_>>>, set: &mut ConditionSet) {
    match approvers {
        Presence::None => set.add_test(linked_to_any(APPROVALS).not()),
        Presence::Any => set.add_test(linked_to_any(APPROVALS)),
        Presence::Is(users) => {
            for user in users {
                set.add(linked_to(APPROVALS, user));
            }
        }
    }
}

fn linked_to(table: &'static str, user: LinkedUser<'_>) -> IndexedCondition {
    let column = Expr::col((table, "user_id"));
    let condition = match user {
        LinkedUser::Id(id) => column.eq(id),
        LinkedUser::Name(name) => column.in_subquery(users_named(name)),
    };
    let condition = Condition::all().add(condition);
    IndexedCondition::on_related_rows(IssuableKind::MergeRequest, table, condition)
}

fn linked_to_any(table: &'static str) -> Condition {
    IndexedCondition::on_related_rows(IssuableKind::MergeRequest, table, Condition::all()).test
}
