//! Changes to the approval settings of projects and groups.

use sea_orm::ActiveValue::{self, Set};
use sea_orm::IntoActiveModel;
use storage::entities::{approval_rules, namespaces, projects, row_changes};

use super::settings::{self, EffectiveApprovalSettings};
use crate::audit::{self, AuditKind};
use crate::identity::access::{GroupAccess, ProjectAccess};
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::spaces::projects::auditing;

/// Changes of the settings of a project; absent ones stay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ApprovalSettingsUpdate {
    /// Number of approvals of any users that a merge requires.
    pub approvals_before_merge: Option<i64>,
    /// The other settings.
    pub permissions: ApprovalPermissionsUpdate,
}

/// Changes of the settings that groups can lock; absent ones stay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ApprovalPermissionsUpdate {
    /// Whether authors can approve their merge requests.
    pub author_approval: Option<bool>,
    /// Whether committers can approve their merge requests.
    pub committer_approval: Option<bool>,
    /// Whether merge requests can have approval rules of their own.
    pub rule_overrides: Option<bool>,
    /// Whether approvals stay after new commits.
    pub retention: Option<bool>,
}

/// Names of the settings of a project, for the error of an update without any.
const SETTINGS: [&str; 5] = [
    "approvals_before_merge",
    "reset_approvals_on_push",
    "disable_overriding_approvers_per_merge_request",
    "merge_requests_author_approval",
    "merge_requests_disable_committers_approval",
];

/// Names of the settings that groups can lock.
const PERMISSIONS: [&str; 4] = [
    "allow_author_approval",
    "allow_committer_approval",
    "allow_overrides_to_approver_list_per_merge_request",
    "retain_approvals_on_push",
];

/// Columns of the settings of a group.
const GROUP_COLUMNS: [namespaces::Column; 4] = [
    namespaces::Column::AllowAuthorApproval,
    namespaces::Column::AllowCommitterApproval,
    namespaces::Column::AllowApprovalRuleOverrides,
    namespaces::Column::RetainApprovalsOnPush,
];

impl ApprovalPermissionsUpdate {
    /// Checks that there is a change.
    ///
    /// # Errors
    /// Returns `InvalidParameters` without any change.
    pub fn check_not_empty(self) -> Result<Self> {
        match self == Self::default() {
            true => Err(Error::no_parameters(&PERMISSIONS)),
            false => Ok(self),
        }
    }

    /// Returns the changes of settings that no group above locks.
    fn unlocked(self, current: &EffectiveApprovalSettings) -> Self {
        Self {
            author_approval: self
                .author_approval
                .filter(|_| !current.author_approval.is_locked),
            committer_approval: self
                .committer_approval
                .filter(|_| !current.committer_approval.is_locked),
            rule_overrides: self.rule_overrides.filter(|_| !current.rule_overrides.is_locked),
            retention: self.retention.filter(|_| !current.retention.is_locked),
        }
    }
}

fn set(column: &mut ActiveValue<bool>, value: Option<bool>) {
    if let Some(value) = value {
        *column = Set(value);
    }
}

/// Changes the settings of a project and returns the access to the changed project. Changes of locked settings are ignored.
///
/// # Errors
/// Returns `InvalidParameters` without any change, and `NotFound` if the project was deleted meanwhile.
pub async fn update(
    backend: &Backend,
    access: ProjectAccess,
    update: ApprovalSettingsUpdate,
) -> Result<ProjectAccess> {
    if update == ApprovalSettingsUpdate::default() {
        return Err(Error::no_parameters(&SETTINGS));
    }
    let required = update
        .approvals_before_merge
        .map(approvals_required)
        .transpose()?;
    let current = settings::of_project(backend, &access).await?;
    let change = update.permissions.unlocked(&current);
    let project = backend
        .database
        .transaction(async |transaction| {
            let before = projects::lock_for_insert(transaction, access.project.id).await?;
            let before = before.ok_or_else(|| Error::not_found("Project"))?;
            let mut row = before.clone().into_active_model();
            let inverted = |value: Option<bool>| value.map(|value| !value);
            set(&mut row.merge_requests_author_approval, change.author_approval);
            set(
                &mut row.merge_requests_disable_committers_approval,
                inverted(change.committer_approval),
            );
            set(
                &mut row.disable_overriding_approvers_per_merge_request,
                inverted(change.rule_overrides),
            );
            set(&mut row.reset_approvals_on_push, inverted(change.retention));
            if let Some(required) = required {
                row.approvals_before_merge = Set(required);
                approval_rules::require_any(transaction, before.id, required).await?;
            }
            let after = row_changes::update_if_changed(transaction, &before, row).await?;
            let audited = auditing::changes(&access.namespace, &before, &after);
            audit::record_all(transaction, &access.caller, audited).await?;
            Ok::<_, Error>(after)
        })
        .await?;
    Ok(ProjectAccess { project, ..access })
}

/// Changes the settings of a group and returns the access to the changed group. Changes of locked settings are ignored.
///
/// # Errors
/// Returns `InvalidParameters` without any change, and `NotFound` if the group was deleted meanwhile.
pub async fn update_group(
    backend: &Backend,
    access: GroupAccess,
    update: ApprovalPermissionsUpdate,
) -> Result<GroupAccess> {
    let current = settings::of_group(backend, &access).await?;
    let change = update.check_not_empty()?.unlocked(&current);
    let group = backend
        .database
        .transaction(async |transaction| {
            let before = namespaces::lock(transaction, access.group.id).await?;
            let before = before.filter(|group| group.deletion_started_at.is_none());
            let before = before.ok_or_else(|| Error::not_found("Group"))?;
            let mut row = before.clone().into_active_model();
            set(&mut row.allow_author_approval, change.author_approval);
            set(&mut row.allow_committer_approval, change.committer_approval);
            set(&mut row.allow_approval_rule_overrides, change.rule_overrides);
            set(&mut row.retain_approvals_on_push, change.retention);
            let after = row_changes::update_if_changed(transaction, &before, row).await?;
            let (kind, entity) = (AuditKind::GroupSettingChanged, access.audit_entity());
            let audited = audit::changes(kind, &entity, &before, &after, &GROUP_COLUMNS);
            audit::record_all(transaction, &access.caller, audited).await?;
            Ok::<_, Error>(after)
        })
        .await?;
    Ok(GroupAccess { group, ..access })
}

/// Returns a number of approvals as it is stored.
///
/// # Errors
/// Returns `InvalidAttributes` if the number is too large.
fn approvals_required(number: i64) -> Result<i32> {
    let error = |_| Error::attribute("approvals_before_merge", "is not a number in range");
    i32::try_from(number).map_err(error)
}
