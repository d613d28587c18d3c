//! Approval rules.

use contract::ApprovalRule;
use domain::kernel::Instance;
use domain::review::approvals::rules::ApprovalRuleDetail;
use storage::entities::users::UserSummary;

use crate::views::accounts::users::reference;
use crate::views::code::protection::branch_protection;
use crate::views::enums::Convert;
use crate::views::spaces::group::group;

/// Returns an approval rule of a project.
#[must_use]
pub fn approval_rule(instance: &Instance, detail: ApprovalRuleDetail) -> ApprovalRule {
    let users = |users: Vec<UserSummary>| {
        let users = users.into_iter().map(|user| reference(&instance.base_url, user));
        users.collect()
    };
    let groups = detail.groups.into_iter().map(|row| group(instance, row, None));
    let branches = detail.protected_branches.into_iter().map(branch_protection);
    ApprovalRule {
        id: detail.rule.id,
        name: detail.rule.name,
        rule_type: detail.rule.rule_type.convert(),
        report_type: None,
        eligible_approvers: users(detail.eligible),
        approvals_required: detail.rule.approvals_required.into(),
        users: users(detail.users),
        groups: groups.collect(),
        contains_hidden_groups: !detail.hidden_groups.is_empty(),
        protected_branches: branches.collect(),
        applies_to_all_protected_branches: detail.rule.applies_to_all_protected_branches,
    }
}
