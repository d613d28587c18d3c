//! Audit events of approval rules.

use std::fmt::Display;

use super::ApprovalRuleDetail;
use crate::audit::{AuditEvent, AuditKind, AuditTarget};
use crate::identity::access::ProjectAccess;

/// Returns an event about a rule of a project.
pub(super) fn event(access: &ProjectAccess, kind: AuditKind, detail: &ApprovalRuleDetail) -> AuditEvent {
    let target = AuditTarget::new("ApprovalRule", detail.rule.id, detail.rule.name.clone());
    AuditEvent::new(kind, access.audit_entity(), target)
}

/// Returns the number of approvals, the users, the groups and the branches of a rule.
pub(super) fn text(detail: &ApprovalRuleDetail) -> String {
    let mut text = format!(
        "{}: {} approvals",
        detail.rule.name, detail.rule.approvals_required
    );
    let mut add = |name: &str, ids: String| {
        if !ids.is_empty() {
            text.push_str(&format!(", {name} {ids}"));
        }
    };
    add("users", joined(detail.users.iter().map(|user| user.id)));
    let groups = detail.groups.iter().map(|row| row.group.id);
    add(
        "groups",
        joined(groups.chain(detail.hidden_groups.iter().copied())),
    );
    match detail.rule.applies_to_all_protected_branches {
        true => add("branches", "all protected".to_owned()),
        false => add(
            "branches",
            joined(detail.protected_branches.iter().map(|rule| &rule.name)),
        ),
    }
    text
}

fn joined(values: impl Iterator<Item = impl Display>) -> String {
    let values: Vec<String> = values.map(|value| value.to_string()).collect();
    values.join(" and ")
}
