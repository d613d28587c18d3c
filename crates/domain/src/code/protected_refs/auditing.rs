//! Audit events of protected branches and tags.

use storage::entities::protected_ref_grants::RefAction;
use storage::entities::ref_rules::{Grantee, RefRule};

use crate::audit::{AuditEntity, AuditEvent, AuditKind, AuditTarget};

/// Returns an event about a protected branch.
pub(super) fn branch_event(entity: AuditEntity, kind: AuditKind, rule: &RefRule) -> AuditEvent {
    let target = AuditTarget::new("ProtectedBranch", rule.id, rule.name.clone());
    AuditEvent::new(kind, entity, target)
}

/// Returns an event about a protected tag.
pub(super) fn tag_event(entity: AuditEntity, kind: AuditKind, rule: &RefRule) -> AuditEvent {
    let target = AuditTarget::new("ProtectedTag", rule.id, rule.name.clone());
    AuditEvent::new(kind, entity, target)
}

/// Returns the access levels and grants of a protected branch.
pub(super) fn branch_text(rule: &RefRule) -> String {
    let mut parts = vec![
        access_text(rule, RefAction::Push, "push"),
        access_text(rule, RefAction::Merge, "merge"),
    ];
    let is_restricted = |grants: &RefRule| {
        let mut grants = grants.grants.iter();
        grants.any(|grant| grant.action == RefAction::Unprotect)
    };
    if rule.level(RefAction::Unprotect).is_some() || is_restricted(rule) {
        parts.push(access_text(rule, RefAction::Unprotect, "unprotect"));
    }
    if rule.allow_force_push {
        parts.push("force push".to_owned());
    }
    if rule.code_owner_approval_required {
        parts.push("code owners".to_owned());
    }
    parts.join(", ")
}

/// Returns the access level and grants of a protected tag.
pub(super) fn tag_text(rule: &RefRule) -> String {
    access_text(rule, RefAction::Create, "create")
}

fn access_text(rule: &RefRule, action: RefAction, name: &str) -> String {
    let mut text = format!("{name} {}", rule.level(action).unwrap_or(0));
    for grant in rule.grants.iter().filter(|grant| grant.action == action) {
        let (kind, id) = match grant.grantee {
            Grantee::User(id) => ("user", id),
            Grantee::Group(id) => ("group", id),
            Grantee::DeployKey(id) => ("deploy key", id),
        };
        text.push_str(&format!(" and {kind} {id}"));
    }
    text
}
