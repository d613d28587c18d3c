//! Creates, changes and deletes approval rules of projects. Each change locks the project.

use std::collections::BTreeSet;

use sea_orm::{ActiveModelTrait, ActiveValue::Set, DatabaseTransaction, EntityTrait, IntoActiveModel};
use storage::entities::approval_rules::{self, ApprovalRuleType};
use storage::entities::{now, projects, row_changes};

use super::selection::{ApproverSelection, ResolvedSelection, branch_ids};
use super::{ApprovalRuleDetail, MAX_RULES, auditing, find, load, of_project};
use crate::audit::{self, AuditKind};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::preconditions;

/// A new rule.
#[derive(Debug, Clone)]
pub struct NewApprovalRule {
    /// The name.
    pub name: String,
    /// The kind. The default depends on whether there are users and groups.
    pub rule_type: Option<ApprovalRuleType>,
    /// Number of approvals that the rule requires.
    pub approvals_required: i64,
    /// Whether the rule applies to all protected branches.
    pub applies_to_all_protected_branches: bool,
    /// The users, groups and branches.
    pub selection: ApproverSelection,
}

/// Changes of a rule; absent ones stay.
#[derive(Debug, Clone, Default)]
pub struct ApprovalRuleUpdate {
    /// The name.
    pub name: Option<String>,
    /// Number of approvals that the rule requires.
    pub approvals_required: Option<i64>,
    /// Whether the rule applies to all protected branches.
    pub applies_to_all_protected_branches: Option<bool>,
    /// Whether groups that are hidden from the caller are removed.
    pub remove_hidden_groups: bool,
    /// The users, groups and branches.
    pub selection: ApproverSelection,
}

/// Creates a rule of a project.
///
/// # Errors
/// Returns `InvalidAttributes` if the name is blank or taken by a rule for the same branches, if the project has a rule for
/// all users already, or if the selection is invalid. Returns `Rejected` if there are [`MAX_RULES`] rules already.
pub async fn create(
    backend: &Backend,
    access: &ProjectAccess,
    new: NewApprovalRule,
) -> Result<ApprovalRuleDetail> {
    let name = check_name(&new.name)?;
    let approvals_required = check_number(new.approvals_required)?;
    let rule_type = new.rule_type.unwrap_or_else(|| new.selection.rule_type());
    let mut selection = new.selection.resolve(backend, access).await?;
    restrict(&mut selection, rule_type, new.applies_to_all_protected_branches);
    let scope = BranchScope {
        is_all_protected: new.applies_to_all_protected_branches,
        branches: selection.branches.clone().unwrap_or_default(),
    };
    backend
        .database
        .transaction(async |transaction| {
            let project = lock(transaction, access).await?;
            let rules = load(transaction, access, of_project(access)).await?;
            let is_any = rule_type == ApprovalRuleType::AnyApprover;
            check_can_add(rules.iter().map(|known| known.rule.rule_type), rule_type)?;
            check_free(&rules, None, name, &scope)?;
            let at = now();
            let row = approval_rules::ActiveModel {
                project_id: Set(project.id),
                name: Set(name.to_owned()),
                rule_type: Set(rule_type),
                approvals_required: Set(approvals_required),
                applies_to_all_protected_branches: Set(scope.is_all_protected),
                created_at: Set(at),
                updated_at: Set(at),
                ..Default::default()
            };
            let id = row.insert(transaction).await?.id;
            selection.save(transaction, id, None).await?;
            if is_any {
                store_number(transaction, project, approvals_required).await?;
            }
            let created = find(transaction, access, id).await?;
            let event = auditing::event(access, AuditKind::ApprovalRuleCreated, &created);
            audit::record(transaction, &access.caller, event.to(auditing::text(&created))).await?;
            Ok(created)
        })
        .await
}

/// Changes a rule of a project.
///
/// # Errors
/// Returns `NotFound` if the project has no such rule, and the errors of [`create`] for the attributes.
pub async fn update(
    backend: &Backend,
    access: &ProjectAccess,
    id: i64,
    update: ApprovalRuleUpdate,
) -> Result<ApprovalRuleDetail> {
    let name = update.name.as_deref().map(check_name).transpose()?;
    let number = update.approvals_required.map(check_number).transpose()?;
    let resolved = update.selection.resolve(backend, access).await?;
    backend
        .database
        .transaction(async |transaction| {
            let project = lock(transaction, access).await?;
            let rules = load(transaction, access, of_project(access)).await?;
            let former = rules.iter().find(|known| known.rule.id == id);
            let former = former.ok_or_else(|| Error::not_found(""))?;
            let is_all_protected = update
                .applies_to_all_protected_branches
                .unwrap_or(former.rule.applies_to_all_protected_branches);
            let mut selection = resolved.clone();
            if !update.remove_hidden_groups {
                selection.keep_hidden_groups(former);
            }
            restrict(&mut selection, former.rule.rule_type, is_all_protected);
            let scope = BranchScope {
                is_all_protected,
                branches: selection.branches.clone().unwrap_or_else(|| branch_ids(former)),
            };
            let name = name.unwrap_or(&former.rule.name);
            check_free(&rules, Some(id), name, &scope)?;
            let is_selection_changed = selection.save(transaction, id, Some(former)).await?;
            let stored = approval_rules::Entity::find_by_id(id).one(transaction).await?;
            let stored = stored.ok_or_else(|| Error::not_found(""))?;
            let mut row = stored.clone().into_active_model();
            row.name = Set(name.to_owned());
            row.applies_to_all_protected_branches = Set(is_all_protected);
            if let Some(number) = number {
                row.approvals_required = Set(number);
            }
            if is_selection_changed {
                row.updated_at = Set(now());
            }
            let rule = row_changes::update_if_changed(transaction, &stored, row).await?;
            if rule.rule_type == ApprovalRuleType::AnyApprover {
                store_number(transaction, project, rule.approvals_required).await?;
            }
            let changed = find(transaction, access, id).await?;
            let (before, after) = (auditing::text(former), auditing::text(&changed));
            if before != after {
                let event = auditing::event(access, AuditKind::ApprovalRuleChanged, &changed);
                audit::record(transaction, &access.caller, event.from(before).to(after)).await?;
            }
            Ok(changed)
        })
        .await
}

/// Deletes a rule of a project.
///
/// # Errors
/// Returns `NotFound` if the project has no such rule, and `PreconditionFailed` if it changed after `unmodified_since`.
pub async fn delete(
    backend: &Backend,
    access: &ProjectAccess,
    id: i64,
    unmodified_since: Option<&str>,
) -> Result<()> {
    backend
        .database
        .transaction(async |transaction| {
            let project = lock(transaction, access).await?;
            let found = find(transaction, access, id).await?;
            preconditions::check_unmodified_since(unmodified_since, found.rule.updated_at)?;
            approval_rules::Entity::delete_by_id(id).exec(transaction).await?;
            if found.rule.rule_type == ApprovalRuleType::AnyApprover {
                store_number(transaction, project, 0).await?;
            }
            let event = auditing::event(access, AuditKind::ApprovalRuleDeleted, &found);
            audit::record(transaction, &access.caller, event.from(auditing::text(&found))).await
        })
        .await
}

/// The branches to which a rule applies.
struct BranchScope {
    is_all_protected: bool,
    branches: BTreeSet<i64>,
}

async fn lock(transaction: &DatabaseTransaction, access: &ProjectAccess) -> Result<projects::Model> {
    let locked = projects::lock_for_insert(transaction, access.project.id).await?;
    locked.ok_or_else(|| Error::not_found("Project"))
}

/// Removes what a rule cannot have: users and groups of a rule for all users, and own branches of a rule for all protected
/// branches.
pub(super) fn restrict(
    selection: &mut ResolvedSelection,
    rule_type: ApprovalRuleType,
    is_all_protected: bool,
) {
    if rule_type == ApprovalRuleType::AnyApprover {
        selection.users = None;
        selection.groups = None;
    }
    if is_all_protected {
        selection.branches = Some(BTreeSet::new());
    }
}

/// Stores the number of the rule for all users in its project, too, where lists of projects read it.
async fn store_number(
    transaction: &DatabaseTransaction,
    project: projects::Model,
    approvals_required: i32,
) -> Result<()> {
    let mut row = project.clone().into_active_model();
    row.approvals_before_merge = Set(approvals_required);
    row_changes::update_if_changed(transaction, &project, row).await?;
    Ok(())
}

/// Checks that an owner with rules of these types can have one more.
pub(super) fn check_can_add(
    known: impl ExactSizeIterator<Item = ApprovalRuleType>,
    added: ApprovalRuleType,
) -> Result<()> {
    if known.len() >= MAX_RULES {
        let text = format!("The maximum number of approval rules ({MAX_RULES}) is reached");
        return Err(Error::Rejected(text.into()));
    }
    let mut known = known;
    match added == ApprovalRuleType::AnyApprover && known.any(|known| known == added) {
        true => Err(Error::attribute("rule_type", "has already been taken")),
        false => Ok(()),
    }
}

/// Checks that no other rule for the same branches has the name.
fn check_free(rules: &[ApprovalRuleDetail], own: Option<i64>, name: &str, scope: &BranchScope) -> Result<()> {
    let mut others = rules.iter().filter(|known| Some(known.rule.id) != own);
    let is_taken = others.any(|known| {
        known.rule.name == name
            && known.rule.applies_to_all_protected_branches == scope.is_all_protected
            && branch_ids(known) == scope.branches
    });
    match is_taken {
        true => Err(Error::attribute("name", "has already been taken")),
        false => Ok(()),
    }
}

pub(super) fn check_name(name: &str) -> Result<&str> {
    let name = name.trim();
    match name.is_empty() {
        true => Err(Error::attribute("name", "can't be blank")),
        false => Ok(name),
    }
}

pub(super) fn check_number(number: i64) -> Result<i32> {
    i32::try_from(number).map_err(|_| Error::attribute("approvals_required", "is not a number in range"))
}
