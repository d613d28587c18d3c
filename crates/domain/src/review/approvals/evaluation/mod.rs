//! Whether a merge request has the approvals that its rules require. The result is computed on each read from the rows,
//! never stored.

mod owner_parts;
mod parts;

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use sea_orm::ConnectionTrait;
use storage::entities::approval_rules::ApprovalRuleType;
use storage::entities::merge_requests::Model;
use storage::entities::related_rows::RelatedRows;
use storage::entities::users::UserSummary;

pub(crate) use parts::{ApprovalParts, branches_part, eligible_part, of_rules, rules_part, scope_of};
pub use parts::{MAX_ELIGIBLE, StoredRule};

use super::settings::ApprovalPolicy;
use crate::code::branch_protection::{self, TargetProtection};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::kernel::policy::InstancePlan;

/// An approval of a merge request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// The user who approved.
    pub user: UserSummary,
    /// When the user approved.
    pub at: DateTime<Utc>,
}

/// A rule that applies to a merge request, with the users who can satisfy it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppliedRule {
    /// The ID.
    pub id: i64,
    /// The name.
    pub name: String,
    /// The kind. A rule of code owners is regular, unless the owners cannot be determined.
    pub rule_type: ApprovalRuleType,
    /// Whether the rule is one of code owners, which is not stored.
    pub is_code_owner: bool,
    /// Name of the section of a rule of code owners.
    pub section: Option<String>,
    /// Number of approvals that the rule requires.
    pub approvals_required: i32,
    /// Users whose approvals count, at most [`MAX_ELIGIBLE`]. Empty for a rule that all users satisfy.
    pub eligible: Vec<UserSummary>,
    /// IDs of the users who approved and whose approvals count.
    pub approved_by: Vec<i64>,
}

/// The approvals of a merge request and the rules that apply to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApprovalState {
    /// All approvals, oldest first.
    pub approvals: Vec<Approval>,
    /// The rules, oldest first.
    pub rules: Vec<AppliedRule>,
    /// Whether the rules of the merge request replace those of the project.
    pub is_overwritten: bool,
}

impl AppliedRule {
    /// Removes users whose approvals do not count. A truncated list stays as long as it is, because the omitted users can
    /// approve, too.
    fn exclude(&mut self, excluded: &HashSet<i64>) {
        if self.eligible.len() < usize::from(MAX_ELIGIBLE) {
            self.eligible.retain(|user| !excluded.contains(&user.id));
        }
        self.approved_by.retain(|id| !excluded.contains(id));
    }

    /// Returns whether no user can satisfy the rule. Such a rule requires nothing, because it could never be satisfied.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        self.rule_type == ApprovalRuleType::Regular && self.approvals_required > 0 && self.eligible.is_empty()
    }

    /// Returns the number of approvals that are missing. If fewer users than required can approve, all of them must.
    #[must_use]
    pub fn approvals_left(&self) -> usize {
        let required = usize::try_from(self.approvals_required).unwrap_or_default();
        let is_complete = self.eligible.len() < usize::from(MAX_ELIGIBLE);
        let required = match self.rule_type == ApprovalRuleType::Regular && is_complete {
            true => required.min(self.eligible.len()),
            false => required,
        };
        required.saturating_sub(self.approved_by.len())
    }

    /// Returns whether the rule has the approvals that it requires.
    #[must_use]
    pub fn is_approved(&self) -> bool {
        self.approvals_left() == 0
    }
}

impl ApprovalState {
    /// Returns whether all rules have the approvals that they require.
    #[must_use]
    pub fn is_approved(&self) -> bool {
        self.rules.iter().all(AppliedRule::is_approved)
    }

    /// Returns the number of approvals that the rules require. The approvals of regular rules also count for the rule that
    /// all users satisfy.
    #[must_use]
    pub fn approvals_required(&self) -> usize {
        self.largest(|rule| usize::try_from(rule.approvals_required).unwrap_or_default())
    }

    /// Returns the number of approvals that are missing.
    #[must_use]
    pub fn approvals_left(&self) -> usize {
        self.largest(AppliedRule::approvals_left)
    }

    /// Returns whether a user has approved.
    #[must_use]
    pub fn has_approval_of(&self, user_id: i64) -> bool {
        self.approvals.iter().any(|approval| approval.user.id == user_id)
    }

    /// Removes the approval of a user.
    pub(crate) fn remove_approval_of(&mut self, user_id: i64) {
        self.approvals.retain(|approval| approval.user.id != user_id);
        for rule in &mut self.rules {
            rule.approved_by.retain(|id| *id != user_id);
        }
    }

    fn largest(&self, number: impl Fn(&AppliedRule) -> usize) -> usize {
        let of = |kind: ApprovalRuleType| {
            let rules = self.rules.iter().filter(move |rule| rule.rule_type == kind);
            rules.map(&number)
        };
        let any = of(ApprovalRuleType::AnyApprover).max().unwrap_or_default();
        any.max(of(ApprovalRuleType::Regular).sum())
    }
}

/// Returns whether the plan includes approval rules.
#[must_use]
pub fn has_rules(backend: &Backend) -> bool {
    backend.instance.plan >= InstancePlan::Starter
}

/// Returns the approvals of a merge request and the rules that apply to it, in one statement.
///
/// # Errors
/// Returns an error if a database query fails.
pub(crate) async fn load(
    backend: &Backend,
    db: &impl ConnectionTrait,
    access: &ProjectAccess,
    merge_request: &Model,
    policy: &ApprovalPolicy,
) -> Result<ApprovalState> {
    let mut related = RelatedRows::default();
    let parts = ApprovalParts::add(backend, &mut related, access, merge_request, policy);
    let rules = branch_protection::add_rules(&mut related, access);
    let mut rows = related.load(db).await?;
    let rules = rules.take(&mut rows)?;
    let target = TargetProtection::of(&rules, &merge_request.target_branch);
    parts.take(&mut rows, merge_request, target, policy)
}

#[cfg(test)]
mod tests {
    use storage::entities::users::UserState;

    use super::*;

    fn user(id: i64) -> UserSummary {
        UserSummary {
            id,
            username: format!("u{id}"),
            name: format!("U{id}"),
            state: UserState::Active,
            avatar: None,
            created_at: DateTime::UNIX_EPOCH,
        }
    }

    fn rule(
        rule_type: ApprovalRuleType,
        required: i32,
        eligible: &[i64],
        approved_by: &[i64],
    ) -> AppliedRule {
        AppliedRule {
            id: 1,
            name: "Rule".to_owned(),
            rule_type,
            is_code_owner: false,
            section: None,
            approvals_required: required,
            eligible: eligible.iter().copied().map(user).collect(),
            approved_by: approved_by.to_vec(),
        }
    }

    fn left(rule_type: ApprovalRuleType, required: i32, eligible: &[i64], approved_by: &[i64]) -> usize {
        rule(rule_type, required, eligible, approved_by).approvals_left()
    }

    #[test]
    fn regular_rule_requires_at_most_its_eligible_users() {
        use ApprovalRuleType::Regular;
        assert_eq!(left(Regular, 2, &[1, 2, 3], &[]), 2);
        assert_eq!(left(Regular, 2, &[1, 2, 3], &[3]), 1);
        assert_eq!(left(Regular, 2, &[1, 2, 3], &[1, 2, 3]), 0);
        assert_eq!(left(Regular, 2, &[1], &[]), 1);
        assert_eq!(left(Regular, 2, &[1], &[1]), 0);
        assert_eq!(left(Regular, 2, &[], &[]), 0);
        assert!(rule(Regular, 2, &[], &[]).is_invalid() && !rule(Regular, 0, &[], &[]).is_invalid());
    }

    #[test]
    fn rule_with_a_truncated_list_of_users_requires_its_number() {
        let many: Vec<i64> = (0..i64::from(MAX_ELIGIBLE)).collect();
        assert_eq!(left(ApprovalRuleType::Regular, 1_000, &many, &[]), 1_000);
    }

    #[test]
    fn rule_for_all_users_requires_its_number() {
        use ApprovalRuleType::AnyApprover;
        assert_eq!(left(AnyApprover, 2, &[], &[]), 2);
        assert_eq!(left(AnyApprover, 2, &[], &[7]), 1);
        assert!(!rule(AnyApprover, 2, &[], &[]).is_invalid());
    }

    #[test]
    fn approvals_of_regular_rules_count_for_all_users() {
        use ApprovalRuleType::{AnyApprover, Regular};
        let state = |any: i32, approved: &[i64]| ApprovalState {
            approvals: Vec::new(),
            rules: vec![
                rule(AnyApprover, any, &[], approved),
                rule(Regular, 1, &[1, 2], approved),
                rule(Regular, 1, &[1, 3], approved),
            ],
            is_overwritten: false,
        };
        assert_eq!(
            (
                state(1, &[]).approvals_required(),
                state(3, &[]).approvals_required()
            ),
            (2, 3)
        );
        assert_eq!(
            (state(3, &[]).approvals_left(), state(3, &[1]).approvals_left()),
            (3, 2)
        );
        assert!(state(1, &[1]).is_approved() && !state(2, &[1]).is_approved());
        let mut revoked = state(1, &[1]);
        revoked.remove_approval_of(1);
        assert_eq!(revoked, state(1, &[]));
        assert!(ApprovalState::default().is_approved());
    }
}
