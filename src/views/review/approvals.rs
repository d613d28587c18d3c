//! Approvals of merge requests, and the approval settings of projects and groups.

use contract::{
    Approval, ApprovalRuleReference, ApprovalSettings, LockableApprovalSetting, MaybeUndefined,
    MergeRequestApprovalSetting, MergeRequestApprovalState, MergeRequestApprovals,
};
use domain::kernel::Instance;
use domain::kernel::policy::InstancePlan;
use domain::review::approvals::evaluation::{self, AppliedRule};
use domain::review::approvals::reviews::{ApprovalDetail, ApprovalStateDetail};
use domain::review::approvals::settings::{ApprovalSetting, EffectiveApprovalSettings};
use storage::entities::projects;

use crate::views::accounts::users::reference;
use crate::views::enums::Convert;
use crate::views::review::approval_rules::{applied_rule, rule_type};

/// Returns the settings of a project, with the values that groups lock.
#[must_use]
pub fn approval_settings(project: &projects::Model, settings: EffectiveApprovalSettings) -> ApprovalSettings {
    ApprovalSettings {
        approvers: Vec::new(),
        approver_groups: Vec::new(),
        approvals_before_merge: project.approvals_before_merge.into(),
        reset_approvals_on_push: !settings.retention.value,
        disable_overriding_approvers_per_merge_request: !settings.rule_overrides.value,
        merge_requests_author_approval: settings.author_approval.value,
        merge_requests_disable_committers_approval: !settings.committer_approval.value,
    }
}

/// Returns the settings of a project or group as permissions.
#[must_use]
pub fn approval_permissions(settings: EffectiveApprovalSettings) -> MergeRequestApprovalSetting {
    let setting = |setting: ApprovalSetting| LockableApprovalSetting {
        value: setting.value,
        locked: setting.is_locked,
        inherited_from: setting.is_locked.then(|| "group".to_owned()),
    };
    MergeRequestApprovalSetting {
        allow_author_approval: setting(settings.author_approval),
        allow_committer_approval: setting(settings.committer_approval),
        allow_overrides_to_approver_list_per_merge_request: setting(settings.rule_overrides),
        retain_approvals_on_push: setting(settings.retention),
    }
}

/// Returns the rules that apply to a merge request.
#[must_use]
pub fn approval_state(instance: &Instance, detail: ApprovalStateDetail) -> MergeRequestApprovalState {
    let state = detail.state;
    let rules = state.rules.iter().zip(detail.details);
    MergeRequestApprovalState {
        approval_rules_overwritten: state.is_overwritten,
        rules: rules
            .map(|(applied, own)| applied_rule(instance, &state.approvals, applied, own))
            .collect(),
    }
}

/// Returns the approvals of a merge request. Plans without approval rules omit most fields.
#[must_use]
pub fn approvals(instance: &Instance, detail: ApprovalDetail) -> MergeRequestApprovals {
    let (state, row) = (&detail.state, detail.merge_request);
    let approved_by = state.approvals.iter().map(|found| approval(instance, found));
    let has_rules = instance.plan >= InstancePlan::Starter;
    let count = |number: usize| has_rules.then(|| i64::try_from(number).unwrap_or(i64::MAX));
    let rules = |is_listed: fn(&AppliedRule) -> bool| {
        let listed = state.rules.iter().filter(|rule| is_listed(rule));
        has_rules.then(|| listed.map(rule_reference).collect())
    };
    MergeRequestApprovals {
        approved: match has_rules {
            true => state.is_approved(),
            false => !state.approvals.is_empty(),
        },
        approved_by: approved_by.collect(),
        user_has_approved: detail.user_has_approved,
        user_can_approve: detail.user_can_approve,
        approvals_required: count(state.approvals_required()),
        approvals_left: count(state.approvals_left()),
        approval_rules_left: rules(|rule| !rule.is_approved()),
        invalid_approvers_rules: rules(AppliedRule::is_invalid),
        has_approval_rules: has_rules.then_some(!state.rules.is_empty()),
        merge_request_approvers_available: has_rules.then_some(true),
        multiple_approval_rules_available: has_rules.then_some(true),
        suggested_approvers: has_rules.then(Vec::new),
        approvers: has_rules.then(Vec::new),
        approver_groups: has_rules.then(Vec::new),
        id: has_rules.then_some(row.id),
        iid: has_rules.then_some(row.iid),
        project_id: has_rules.then_some(row.target_project_id),
        title: has_rules.then_some(row.title),
        description: match has_rules {
            true => MaybeUndefined::from_opt_null(row.description),
            false => MaybeUndefined::Undefined,
        },
        state: has_rules.then(|| row.state.convert()),
        created_at: has_rules.then(|| row.created_at.into()),
        updated_at: has_rules.then(|| row.updated_at.into()),
        merge_status: has_rules.then(|| row.merge_status.convert()),
    }
}

fn approval(instance: &Instance, found: &evaluation::Approval) -> Approval {
    Approval {
        user: reference(&instance.base_url, &found.user),
        approved_at: found.at.into(),
    }
}

fn rule_reference(rule: &AppliedRule) -> ApprovalRuleReference {
    ApprovalRuleReference {
        id: rule.id,
        name: rule.name.clone(),
        rule_type: rule_type(rule.rule_type, rule.is_code_owner),
    }
}
