//! The approval settings that apply to a project or group, with the values that groups lock.

use std::collections::HashSet;

use storage::entities::group_approval_settings::{self, PermittedApprovals};
use storage::entities::namespaces::{self, NamespaceKind};

use super::owner_rules::OwnerRules;
use crate::identity::access::{GroupAccess, ProjectAccess};
use crate::kernel::Backend;
use crate::kernel::error::Result;

/// A setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApprovalSetting {
    /// The value that applies.
    pub value: bool,
    /// Whether a group above locks the value.
    pub is_locked: bool,
}

/// The settings that apply to a project or group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EffectiveApprovalSettings {
    /// Whether authors can approve their merge requests.
    pub author_approval: ApprovalSetting,
    /// Whether committers can approve their merge requests.
    pub committer_approval: ApprovalSetting,
    /// Whether merge requests can have approval rules of their own.
    pub rule_overrides: ApprovalSetting,
    /// Whether approvals stay after new commits.
    pub retention: ApprovalSetting,
}

/// The effect of the settings on a merge request.
#[derive(Debug, Clone)]
pub struct ApprovalPolicy {
    /// Users whose approvals do not count.
    pub excluded: HashSet<i64>,
    /// Whether the rules of the merge request replace those of the project.
    pub has_rule_overrides: bool,
    /// The rules of code owners.
    pub owners: OwnerRules,
}

impl EffectiveApprovalSettings {
    fn new(own: PermittedApprovals, above: PermittedApprovals) -> Self {
        let setting = |own: bool, above: bool| ApprovalSetting {
            value: own && above,
            is_locked: !above,
        };
        Self {
            author_approval: setting(own.by_authors, above.by_authors),
            committer_approval: setting(own.by_committers, above.by_committers),
            rule_overrides: setting(own.rule_overrides, above.rule_overrides),
            retention: setting(own.retention, above.retention),
        }
    }
}

/// Returns the settings of a project.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn of_project(backend: &Backend, access: &ProjectAccess) -> Result<EffectiveApprovalSettings> {
    let project = &access.project;
    let own = PermittedApprovals {
        by_authors: project.merge_requests_author_approval,
        by_committers: !project.merge_requests_disable_committers_approval,
        rule_overrides: !project.disable_overriding_approvers_per_merge_request,
        retention: !project.reset_approvals_on_push,
    };
    let above = match access.namespace.kind {
        NamespaceKind::User => PermittedApprovals::default(),
        NamespaceKind::Group => permitted(backend, access.namespace.id).await?,
    };
    Ok(EffectiveApprovalSettings::new(own, above))
}

/// Returns the settings of a group.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn of_group(backend: &Backend, access: &GroupAccess) -> Result<EffectiveApprovalSettings> {
    let above = above(backend, &access.group).await?;
    Ok(EffectiveApprovalSettings::new(
        PermittedApprovals::of(&access.group),
        above,
    ))
}

/// Returns what the groups above a group permit.
async fn above(backend: &Backend, group: &namespaces::Model) -> Result<PermittedApprovals> {
    match group.parent_id {
        Some(id) => permitted(backend, id).await,
        None => Ok(PermittedApprovals::default()),
    }
}

async fn permitted(backend: &Backend, namespace_id: i64) -> Result<PermittedApprovals> {
    let look_up = async {
        let db = backend.database.read();
        Ok(group_approval_settings::permitted(db, namespace_id).await?)
    };
    let cache = &backend.caches.permitted_approvals;
    cache.get_or_load(&backend.database, namespace_id, look_up).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_requires_both_and_only_the_groups_above_lock_it() {
        let all = PermittedApprovals::default();
        let no_authors = PermittedApprovals {
            by_authors: false,
            ..all
        };
        let setting = |own, above| EffectiveApprovalSettings::new(own, above).author_approval;
        for (own, above, value, is_locked) in [
            (all, all, true, false),
            (no_authors, all, false, false),
            (all, no_authors, false, true),
            (no_authors, no_authors, false, true),
        ] {
            assert_eq!(setting(own, above), ApprovalSetting { value, is_locked });
        }
        let others = EffectiveApprovalSettings::new(all, no_authors);
        assert!(others.committer_approval.value && !others.retention.is_locked);
    }
}
