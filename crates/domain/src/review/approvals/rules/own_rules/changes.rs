//! Creates, changes and deletes approval rules of merge requests. Each change locks the merge request, as the decision about
//! its merge does.

use sea_orm::{ActiveModelTrait, ActiveValue::Set, DatabaseTransaction, EntityTrait, IntoActiveModel};
use storage::entities::approval_rules::{self, ALL_MEMBERS, ApprovalRuleType};
use storage::entities::merge_requests::Model;
use storage::entities::{now, row_changes};

use super::{
    OwnRuleDetail, check_can_change, check_can_edit, check_is_stored, check_not_merged, find_own, split,
};
use crate::audit::{self, AuditKind};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::preconditions;
use crate::review::approvals::evaluation::scope_of;
use crate::review::approvals::rules::changes::{check_can_add, check_name, check_number, restrict};
use crate::review::approvals::rules::selection::{ApproverSelection, ResolvedSelection, insert_error};
use crate::review::approvals::rules::{ApprovalRuleDetail, auditing, load};
use crate::review::approvals::settings;
use crate::review::merge_requests::{find, lock};

/// A new rule of a merge request.
#[derive(Debug, Clone)]
pub struct NewOwnRule {
    /// The name; that of the source if absent.
    pub name: Option<String>,
    /// Number of approvals that the rule requires.
    pub approvals_required: i64,
    /// ID of the rule of the project to copy.
    pub source_rule_id: Option<i64>,
    /// The users and groups; those of the source if absent.
    pub selection: ApproverSelection,
}

/// Changes of a rule of a merge request; absent ones stay.
#[derive(Debug, Clone, Default)]
pub struct OwnRuleUpdate {
    /// The name.
    pub name: Option<String>,
    /// Number of approvals that the rule requires.
    pub approvals_required: Option<i64>,
    /// Whether groups that are hidden from the caller are removed.
    pub remove_hidden_groups: bool,
    /// The users and groups.
    pub selection: ApproverSelection,
}

/// Creates a rule of a merge request.
///
/// # Errors
/// Returns `NotFound` if the merge request is not visible to the caller. Returns `Forbidden` if the caller cannot change it, if
/// it is merged, or if the project does not permit rules of merge requests. Returns `InvalidParameters` without a name and a
/// source. Returns `InvalidAttributes` if the name is blank or taken, if the source does not exist or requires more approvals,
/// or if there is a rule for all users already. Returns `Rejected` if there are too many rules.
pub async fn create(
    backend: &Backend,
    access: &ProjectAccess,
    iid: i64,
    new: NewOwnRule,
) -> Result<OwnRuleDetail> {
    let found = find(backend.database.read(), access, iid).await?;
    check_can_change(backend, access, &found).await?;
    if new.name.is_none() && new.source_rule_id.is_none() {
        return Err(Error::parameter("name is missing"));
    }
    let approvals_required = check_number(new.approvals_required)?;
    let resolved = new.selection.resolve(backend, access).await?;
    backend
        .database
        .transaction(async |transaction| {
            let merge_request = lock(transaction, access, iid).await?;
            check_not_merged(&merge_request)?;
            let rules = split(load(transaction, access, scope_of(&merge_request)).await?);
            let source = match new.source_rule_id {
                Some(id) => Some(find_source(&rules.of_project, id)?),
                None => None,
            };
            let name = new
                .name
                .as_deref()
                .or(source.map(|source| source.rule.name.as_str()));
            let (rule_type, selection) = match source {
                Some(source) => (source.rule.rule_type, resolved.clone().or_approvers_of(source)),
                None => (new.selection.rule_type(), resolved.clone()),
            };
            let rule = PreparedRule {
                name: check_name(name.unwrap_or_default())?,
                rule_type,
                approvals_required: check_minimum(approvals_required, source)?,
                source_rule_id: new.source_rule_id,
            };
            insert(transaction, access, &merge_request, &rules.own, rule, selection).await
        })
        .await
}

/// Changes a rule of a merge request.
///
/// # Errors
/// Returns `NotFound` if the merge request has no such rule, and the errors of [`create`].
pub async fn update(
    backend: &Backend,
    access: &ProjectAccess,
    (iid, id): (i64, i64),
    update: OwnRuleUpdate,
) -> Result<OwnRuleDetail> {
    let found = find(backend.database.read(), access, iid).await?;
    check_can_change(backend, access, &found).await?;
    check_is_stored(backend, access, &found, id).await?;
    let name = update.name.as_deref().map(check_name).transpose()?;
    let number = update.approvals_required.map(check_number).transpose()?;
    let resolved = update.selection.resolve(backend, access).await?;
    backend
        .database
        .transaction(async |transaction| {
            let merge_request = lock(transaction, access, iid).await?;
            check_not_merged(&merge_request)?;
            let rules = split(load(transaction, access, scope_of(&merge_request)).await?);
            let former = rules.own.iter().find(|known| known.detail.rule.id == id);
            let former = former.ok_or_else(|| Error::not_found(""))?;
            let change = RuleChange {
                name,
                approvals_required: number,
                keeps_hidden_groups: !update.remove_hidden_groups,
            };
            if let Some(source) = former.detail.rule.source_rule_id {
                let source = rules.of_project.iter().find(|known| known.rule.id == source);
                number.map(|number| check_minimum(number, source)).transpose()?;
            }
            check_free(&rules.own, Some(id), name.unwrap_or(&former.detail.rule.name))?;
            save(
                transaction,
                access,
                &merge_request,
                former,
                change,
                resolved.clone(),
            )
            .await
        })
        .await
}

/// Deletes a rule of a merge request.
///
/// # Errors
/// Returns `NotFound` if the merge request has no such rule, `Forbidden` as [`create`] does, and `PreconditionFailed` if the
/// rule changed after `unmodified_since`.
pub async fn delete(
    backend: &Backend,
    access: &ProjectAccess,
    (iid, id): (i64, i64),
    unmodified_since: Option<&str>,
) -> Result<()> {
    let found = find(backend.database.read(), access, iid).await?;
    check_can_change(backend, access, &found).await?;
    check_is_stored(backend, access, &found, id).await?;
    backend
        .database
        .transaction(async |transaction| {
            let merge_request = lock(transaction, access, iid).await?;
            check_not_merged(&merge_request)?;
            let rule = find_own(transaction, access, &merge_request, id).await?;
            preconditions::check_unmodified_since(unmodified_since, rule.detail.rule.updated_at)?;
            approval_rules::Entity::delete_by_id(id).exec(transaction).await?;
            let event = auditing::event(access, AuditKind::ApprovalRuleDeleted, &rule.detail);
            let event = event.from(text(&merge_request, &rule.detail));
            audit::record(transaction, &access.caller, event).await
        })
        .await
}

/// Sets the number of approvals of any users that a merge request requires, and creates its rule for all users if it has none.
///
/// # Errors
/// Returns `NotFound` if the merge request is not visible to the caller, and `Forbidden` if the caller cannot change it or it
/// is merged. Returns `Unprocessable` if the project does not permit rules of merge requests, and `InvalidAttributes` if the
/// number is lower than the source of the rule requires.
pub async fn require_approvals(
    backend: &Backend,
    access: &ProjectAccess,
    iid: i64,
    approvals_required: i64,
) -> Result<()> {
    let found = find(backend.database.read(), access, iid).await?;
    check_can_edit(access, &found)?;
    if !settings::of_project(backend, access).await?.rule_overrides.value {
        return Err(Error::Unprocessable("Overriding approvals is disabled".into()));
    }
    let approvals_required = check_number(approvals_required)?;
    backend
        .database
        .transaction(async |transaction| {
            let merge_request = lock(transaction, access, iid).await?;
            check_not_merged(&merge_request)?;
            let rules = split(load(transaction, access, scope_of(&merge_request)).await?);
            let is_any =
                |known: &&OwnRuleDetail| known.detail.rule.rule_type == ApprovalRuleType::AnyApprover;
            let selection = ResolvedSelection::default();
            let Some(former) = rules.own.iter().find(is_any) else {
                let rule = PreparedRule {
                    name: ALL_MEMBERS,
                    rule_type: ApprovalRuleType::AnyApprover,
                    approvals_required,
                    source_rule_id: None,
                };
                insert(transaction, access, &merge_request, &rules.own, rule, selection).await?;
                return Ok(());
            };
            let source = former.detail.rule.source_rule_id;
            let source = rules
                .of_project
                .iter()
                .find(|known| Some(known.rule.id) == source);
            let change = RuleChange {
                name: None,
                approvals_required: Some(check_minimum(approvals_required, source)?),
                keeps_hidden_groups: true,
            };
            save(transaction, access, &merge_request, former, change, selection).await?;
            Ok::<_, Error>(())
        })
        .await
}

/// A new rule whose attributes are checked.
struct PreparedRule<'a> {
    name: &'a str,
    rule_type: ApprovalRuleType,
    approvals_required: i32,
    source_rule_id: Option<i64>,
}

/// Changes of a rule, without its users and groups.
struct RuleChange<'a> {
    name: Option<&'a str>,
    approvals_required: Option<i32>,
    keeps_hidden_groups: bool,
}

/// Inserts a rule of a locked merge request.
async fn insert(
    transaction: &DatabaseTransaction,
    access: &ProjectAccess,
    merge_request: &Model,
    known: &[OwnRuleDetail],
    rule: PreparedRule<'_>,
    mut selection: ResolvedSelection,
) -> Result<OwnRuleDetail> {
    check_can_add(
        known.iter().map(|known| known.detail.rule.rule_type),
        rule.rule_type,
    )?;
    check_free(known, None, rule.name)?;
    restrict(&mut selection, rule.rule_type, false);
    let at = now();
    let row = approval_rules::ActiveModel {
        project_id: Set(merge_request.target_project_id),
        merge_request_id: Set(Some(merge_request.id)),
        source_rule_id: Set(rule.source_rule_id),
        name: Set(rule.name.to_owned()),
        rule_type: Set(rule.rule_type),
        approvals_required: Set(rule.approvals_required),
        applies_to_all_protected_branches: Set(false),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    };
    let id = row.insert(transaction).await.map_err(insert_error)?.id;
    selection.save(transaction, id, None).await?;
    let created = find_own(transaction, access, merge_request, id).await?;
    let event = auditing::event(access, AuditKind::ApprovalRuleCreated, &created.detail);
    let event = event.to(text(merge_request, &created.detail));
    audit::record(transaction, &access.caller, event).await?;
    Ok(created)
}

/// Stores the changes of a rule of a locked merge request, if there are any.
async fn save(
    transaction: &DatabaseTransaction,
    access: &ProjectAccess,
    merge_request: &Model,
    former: &OwnRuleDetail,
    change: RuleChange<'_>,
    mut selection: ResolvedSelection,
) -> Result<OwnRuleDetail> {
    let former = &former.detail;
    if change.keeps_hidden_groups {
        selection.keep_hidden_groups(former);
    }
    restrict(&mut selection, former.rule.rule_type, false);
    let id = former.rule.id;
    let is_selection_changed = selection.save(transaction, id, Some(former)).await?;
    let stored = approval_rules::Entity::find_by_id(id).one(transaction).await?;
    let stored = stored.ok_or_else(|| Error::not_found(""))?;
    let mut row = stored.clone().into_active_model();
    if let Some(name) = change.name {
        row.name = Set(name.to_owned());
    }
    if let Some(number) = change.approvals_required {
        row.approvals_required = Set(number);
    }
    if is_selection_changed {
        row.updated_at = Set(now());
    }
    row_changes::update_if_changed(transaction, &stored, row).await?;
    let changed = find_own(transaction, access, merge_request, id).await?;
    let (before, after) = (text(merge_request, former), text(merge_request, &changed.detail));
    if before != after {
        let event = auditing::event(access, AuditKind::ApprovalRuleChanged, &changed.detail);
        audit::record(transaction, &access.caller, event.from(before).to(after)).await?;
    }
    Ok(changed)
}

fn text(merge_request: &Model, detail: &ApprovalRuleDetail) -> String {
    format!("!{} {}", merge_request.iid, auditing::text(detail))
}

fn find_source(rules: &[ApprovalRuleDetail], id: i64) -> Result<&ApprovalRuleDetail> {
    let found = rules.iter().find(|known| known.rule.id == id);
    found.ok_or_else(|| {
        Error::attribute(
            "approval_project_rule_id",
            "must be the ID of an approval rule of the project",
        )
    })
}

/// Checks that a copy of a rule requires at least as many approvals as its source.
fn check_minimum(number: i32, source: Option<&ApprovalRuleDetail>) -> Result<i32> {
    match source.map(|source| source.rule.approvals_required) {
        Some(least) if number < least => Err(Error::attribute(
            "approvals_required",
            format!("must be greater than or equal to {least}"),
        )),
        _ => Ok(number),
    }
}

/// Checks that no other rule of the merge request has the name.
fn check_free(rules: &[OwnRuleDetail], own: Option<i64>, name: &str) -> Result<()> {
    let mut others = rules.iter().filter(|known| Some(known.detail.rule.id) != own);
    match others.any(|known| known.detail.rule.name == name) {
        true => Err(Error::attribute("name", "has already been taken")),
        false => Ok(()),
    }
}
