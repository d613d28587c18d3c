//! Protected branches and tags.

use domain::code::protected_refs::access_lists::{AccessEntry, entries};
use storage::entities::protected_ref_grants::RefAction;
use storage::entities::ref_rules::{Grantee, RefRule};

/// Returns the protection of branches.
#[must_use]
pub fn branch_protection(rule: RefRule) -> contract::BranchProtection {
    contract::BranchProtection {
        push_access_levels: access(&rule, RefAction::Push),
        merge_access_levels: access(&rule, RefAction::Merge),
        unprotect_access_levels: access(&rule, RefAction::Unprotect),
        id: rule.id,
        name: rule.name,
        allow_force_push: rule.allow_force_push,
        code_owner_approval_required: rule.code_owner_approval_required,
        inherited: rule.inherited,
    }
}

/// Returns the protection of tags.
#[must_use]
pub fn tag_protection(rule: RefRule) -> contract::TagProtection {
    contract::TagProtection {
        create_access_levels: access(&rule, RefAction::Create),
        name: rule.name,
    }
}

fn access(rule: &RefRule, action: RefAction) -> Vec<contract::ProtectionAccess> {
    entries(rule, action).into_iter().map(entry).collect()
}

fn entry(entry: AccessEntry) -> contract::ProtectionAccess {
    let (user_id, group_id, deploy_key_id) = match entry.grantee {
        None => (None, None, None),
        Some(Grantee::User(id)) => (Some(id), None, None),
        Some(Grantee::Group(id)) => (None, Some(id), None),
        Some(Grantee::DeployKey(id)) => (None, None, Some(id)),
    };
    let description = match (entry.grantee, entry.name) {
        (Some(_), Some(name)) => name,
        (Some(Grantee::User(_)), None) => "User".to_owned(),
        (Some(Grantee::Group(_)), None) => "Group".to_owned(),
        (Some(Grantee::DeployKey(_)), None) => "Deploy key".to_owned(),
        (None, _) => role_name(entry.access_level).to_owned(),
    };
    contract::ProtectionAccess {
        id: entry.id,
        access_level: entry.access_level.into(),
        access_level_description: description,
        user_id,
        group_id,
        deploy_key_id,
    }
}

/// Returns the text for the roles of an access level, as in the reference service.
fn role_name(level: i32) -> &'static str {
    match level {
        30 => "Developers + Maintainers",
        40 => "Maintainers",
        60 => "Instance admins",
        _ => "No one",
    }
}
