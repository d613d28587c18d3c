//! Approval rules of projects and of merge requests.

use contract::{
    AppliedApprovalRule, ApprovalRule, ApprovalRuleSource, MergeRequestApprovalRule,
    MergeRequestApprovalRuleType,
};
use domain::kernel::Instance;
use domain::review::approvals::evaluation::{AppliedRule, Approval, StoredRule};
use domain::review::approvals::rules::ApprovalRuleDetail;
use domain::review::approvals::rules::own_rules::OwnRuleDetail;
use storage::entities::approval_rules::ApprovalRuleType;
use storage::entities::users::UserSummary;

use crate::views::accounts::users::reference;
use crate::views::code::protection::branch_protection;
use crate::views::enums::Convert;
use crate::views::spaces::group::group;

fn references(instance: &Instance, users: Vec<UserSummary>) -> Vec<contract::UserReference> {
    let users = users.into_iter().map(|user| reference(&instance.base_url, user));
    users.collect()
}

/// Returns the type of a rule that can apply to a merge request.
pub(super) fn rule_type(stored: ApprovalRuleType, is_code_owner: bool) -> MergeRequestApprovalRuleType {
    match (is_code_owner, stored) {
        (true, _) => MergeRequestApprovalRuleType::CodeOwner,
        (false, ApprovalRuleType::AnyApprover) => MergeRequestApprovalRuleType::AnyApprover,
        (false, ApprovalRuleType::Regular) => MergeRequestApprovalRuleType::Regular,
    }
}

/// Returns an approval rule of a project.
#[must_use]
pub fn approval_rule(instance: &Instance, detail: ApprovalRuleDetail) -> ApprovalRule {
    let groups = detail.groups.into_iter().map(|row| group(instance, row, None));
    let branches = detail.protected_branches.into_iter().map(branch_protection);
    ApprovalRule {
        id: detail.rule.id,
        name: detail.rule.name,
        rule_type: detail.rule.rule_type.convert(),
        report_type: None,
        eligible_approvers: references(instance, detail.eligible),
        approvals_required: detail.rule.approvals_required.into(),
        users: references(instance, detail.users),
        groups: groups.collect(),
        contains_hidden_groups: !detail.hidden_groups.is_empty(),
        protected_branches: branches.collect(),
        applies_to_all_protected_branches: detail.rule.applies_to_all_protected_branches,
    }
}

/// Returns an approval rule of a merge request.
#[must_use]
pub fn own_rule(instance: &Instance, own: OwnRuleDetail) -> MergeRequestApprovalRule {
    let detail = own.detail;
    let groups = detail.groups.into_iter().map(|row| group(instance, row, None));
    MergeRequestApprovalRule {
        id: detail.rule.id,
        name: detail.rule.name,
        rule_type: rule_type(detail.rule.rule_type, own.is_code_owner),
        report_type: None,
        eligible_approvers: references(instance, detail.eligible),
        approvals_required: detail.rule.approvals_required.into(),
        users: references(instance, detail.users),
        groups: groups.collect(),
        contains_hidden_groups: !detail.hidden_groups.is_empty(),
        section: own.section,
        source_rule: own.source.map(source_rule),
        overridden: own.is_overridden,
    }
}

/// Returns a rule that applies to a merge request, with the users whose approvals count.
#[must_use]
pub fn applied_rule(
    instance: &Instance,
    approvals: &[Approval],
    applied: &AppliedRule,
    own: OwnRuleDetail,
) -> AppliedApprovalRule {
    let rule = own_rule(instance, own);
    let counts = |approval: &&Approval| applied.approved_by.contains(&approval.user.id);
    let approved_by = approvals.iter().filter(counts);
    AppliedApprovalRule {
        id: rule.id,
        name: rule.name,
        rule_type: rule.rule_type,
        report_type: rule.report_type,
        eligible_approvers: rule.eligible_approvers,
        approvals_required: rule.approvals_required,
        users: rule.users,
        groups: rule.groups,
        contains_hidden_groups: rule.contains_hidden_groups,
        section: rule.section,
        source_rule: rule.source_rule,
        overridden: rule.overridden,
        code_owner: applied.is_code_owner,
        approved: applied.is_approved(),
        approved_by: approved_by
            .map(|approval| reference(&instance.base_url, &approval.user))
            .collect(),
    }
}

fn source_rule(source: StoredRule) -> ApprovalRuleSource {
    ApprovalRuleSource {
        id: source.id,
        name: source.name,
        rule_type: source.rule_type.convert(),
        approvals_required: source.approvals_required.into(),
    }
}
