//! Protected branches of projects and groups.

use sea_orm::{ConnectionTrait, DatabaseTransaction};
use storage::entities::AccessLevel;
use storage::entities::protected_ref_grants::RefAction;
use storage::entities::ref_rules::{self, GrantFilter, RefRule};

use super::access_lists::{AccessList, EntryChange, NewAccessList};
use super::auditing::{branch_event, branch_text};
use super::branch_owner::RuleColumns;
use super::grantees::{self, GrantOwner};
use super::{DEFAULT_LEVEL, MAX_RULES, check_name, not_found, too_many};
use crate::audit::{self, AuditKind};
use crate::code::rule_subject::RuleSubject;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::preconditions;

pub use super::branch_owner::BranchOwner;

/// A new protected branch.
#[derive(Debug, Clone, Default)]
pub struct NewBranchRule {
    /// The name or pattern.
    pub name: String,
    /// Callers who may push.
    pub push: NewAccessList,
    /// Callers who may merge.
    pub merge: NewAccessList,
    /// Callers who may change or remove the protection.
    pub unprotect: NewAccessList,
    /// Whether callers who can push can also force-push.
    pub allow_force_push: bool,
    /// Whether changes of files with code owners require their approval.
    pub code_owner_approval_required: bool,
}

/// Changes of a protected branch; absent ones stay.
#[derive(Debug, Clone, Default)]
pub struct BranchRuleUpdate {
    /// Changes of the callers who may push.
    pub push: Vec<EntryChange>,
    /// Changes of the callers who may merge.
    pub merge: Vec<EntryChange>,
    /// Changes of the callers who may change or remove the protection.
    pub unprotect: Vec<EntryChange>,
    /// Whether callers who can push can also force-push.
    pub allow_force_push: Option<bool>,
    /// Whether changes of files with code owners require their approval.
    pub code_owner_approval_required: Option<bool>,
}

/// Roles of a protected branch that replace the former ones; absent ones stay.
#[derive(Debug, Clone, Copy, Default)]
pub struct RoleChange {
    /// The role for pushes.
    pub push: Option<AccessLevel>,
    /// The role for merges.
    pub merge: Option<AccessLevel>,
}

/// Returns a page of protected branches, oldest first. Those of the groups above a project come last.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn list(
    backend: &Backend,
    owner: BranchOwner<'_>,
    search: Option<&str>,
    page: &PageRequest,
) -> Result<Page<RefRule>> {
    super::list(backend, owner.caller(), owner.rule_owner(), search, page).await
}

/// Returns the protected branch with exactly this name or pattern.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist.
pub async fn get(backend: &Backend, owner: BranchOwner<'_>, name: &str) -> Result<RefRule> {
    super::get(backend, owner.caller(), owner.rule_owner(), name).await
}

/// Protects the branches that match a name or pattern.
///
/// # Errors
/// Returns `Error::Conflict` if the name is protected already. Returns `Error::InvalidAttributes` if no branch can have the
/// name, and `Error::Rejected` if there are [`MAX_RULES`] rules already. Returns `Error::InvalidParameters` or
/// `Error::Unprocessable` if an access list is invalid.
pub async fn create(backend: &Backend, owner: BranchOwner<'_>, new: NewBranchRule) -> Result<RefRule> {
    check_name(&new.name)?;
    let default = i32::from(DEFAULT_LEVEL);
    let lists = [
        AccessList::new(RefAction::Push, new.push, default)?,
        AccessList::new(RefAction::Merge, new.merge, default)?,
        AccessList::new(RefAction::Unprotect, new.unprotect, default)?,
    ];
    let columns = columns(&lists, (new.allow_force_push, new.code_owner_approval_required));
    backend
        .database
        .transaction(async |transaction| {
            owner.lock(transaction).await?;
            if find_own(transaction, owner, &new.name).await?.is_some() {
                let text = format!("Protected branch '{}' already exists", new.name);
                return Err(Error::Conflict(text.into()));
            }
            insert(transaction, owner, &new.name, columns, &lists).await
        })
        .await
}

/// Changes a protected branch.
///
/// # Errors
/// Returns `Error::NotFound` if the owner has no such rule. Returns `Error::Forbidden` if the rule is inherited or does not
/// allow the caller to change it. Returns `Error::InvalidParameters` or `Error::Unprocessable` if an access list is
/// invalid.
pub async fn update(
    backend: &Backend,
    owner: BranchOwner<'_>,
    name: &str,
    change: BranchRuleUpdate,
) -> Result<RefRule> {
    backend
        .database
        .transaction(async |transaction| {
            owner.lock(transaction).await?;
            let rule = changeable(transaction, owner, name).await?;
            let mut lists = lists_of(&rule);
            let [push, merge, unprotect] = &mut lists;
            push.apply(Some(rule.id), change.push)?;
            merge.apply(Some(rule.id), change.merge)?;
            unprotect.apply(Some(rule.id), change.unprotect)?;
            let flags = (
                change.allow_force_push.unwrap_or(rule.allow_force_push),
                change
                    .code_owner_approval_required
                    .unwrap_or(rule.code_owner_approval_required),
            );
            save(transaction, owner, rule, flags, &lists).await
        })
        .await
}

/// Removes a protected branch, without the branches that match it.
///
/// # Errors
/// Returns the errors of [`update`] for the rule, and `Error::PreconditionFailed` if the rule changed after
/// `unmodified_since`.
pub async fn delete(
    backend: &Backend,
    owner: BranchOwner<'_>,
    name: &str,
    unmodified_since: Option<&str>,
) -> Result<()> {
    backend
        .database
        .transaction(async |transaction| {
            owner.lock(transaction).await?;
            let rule = changeable(transaction, owner, name).await?;
            if let Some(changed) = rule.updated_at {
                preconditions::check_unmodified_since(unmodified_since, changed)?;
            }
            remove(transaction, owner, &rule).await
        })
        .await
}

/// Protects exactly this name, and replaces its roles. Other grants stay. The default is the Maintainer role.
///
/// # Errors
/// Returns `Error::Forbidden` if the rule does not allow the caller to change it, and `Error::Rejected` if there are
/// [`MAX_RULES`] rules already.
pub async fn set_roles(
    backend: &Backend,
    owner: BranchOwner<'_>,
    name: &str,
    change: RoleChange,
) -> Result<()> {
    backend
        .database
        .transaction(async |transaction| {
            owner.lock(transaction).await?;
            let known = find_own(transaction, owner, name).await?;
            let level = |role: AccessLevel| i32::from(role);
            let Some(rule) = known else {
                let columns = RuleColumns {
                    push: level(change.push.unwrap_or(DEFAULT_LEVEL)),
                    merge: level(change.merge.unwrap_or(DEFAULT_LEVEL)),
                    unprotect: None,
                    allow_force_push: false,
                    code_owners: false,
                };
                insert(transaction, owner, name, columns, &[]).await?;
                return Ok(());
            };
            check_can_change(transaction, owner, &rule).await?;
            let mut lists = lists_of(&rule);
            let [push, merge, _] = &mut lists;
            push.level = change.push.map_or(push.level, level);
            merge.level = change.merge.map_or(merge.level, level);
            let flags = (rule.allow_force_push, rule.code_owner_approval_required);
            save(transaction, owner, rule, flags, &lists).await?;
            Ok(())
        })
        .await
}

/// Removes the protection of exactly this name, if it exists. Patterns that match the name stay.
///
/// # Errors
/// Returns `Error::Forbidden` if the rule does not allow the caller to remove it.
pub async fn remove_if_present(backend: &Backend, owner: BranchOwner<'_>, name: &str) -> Result<()> {
    backend
        .database
        .transaction(async |transaction| {
            owner.lock(transaction).await?;
            let Some(rule) = find_own(transaction, owner, name).await? else {
                return Ok(());
            };
            check_can_change(transaction, owner, &rule).await?;
            remove(transaction, owner, &rule).await
        })
        .await
}

/// Returns the rules of a locked owner with all grants.
async fn load(db: &impl ConnectionTrait, owner: BranchOwner<'_>) -> Result<Vec<RefRule>> {
    let filter = GrantFilter::All(owner.caller().viewer());
    Ok(ref_rules::load(db, owner.rule_owner(), filter).await?)
}

async fn find_own(db: &impl ConnectionTrait, owner: BranchOwner<'_>, name: &str) -> Result<Option<RefRule>> {
    let rules = load(db, owner).await?;
    Ok(rules
        .into_iter()
        .find(|rule| !rule.inherited && rule.name == name))
}

/// Returns the rule with this name if the caller may change it.
async fn changeable(db: &impl ConnectionTrait, owner: BranchOwner<'_>, name: &str) -> Result<RefRule> {
    let mut named = load(db, owner)
        .await?
        .into_iter()
        .filter(|rule| rule.name == name);
    // An own rule comes first.
    let rule = named.next().ok_or_else(not_found)?;
    if rule.inherited {
        return Err(Error::forbidden_because(
            "The branch is protected by a group. Change the protected branch of the group.",
        ));
    }
    check_can_change(db, owner, &rule).await?;
    Ok(rule)
}

/// Checks that the rule allows the caller to change and remove it. Administrators always can.
async fn check_can_change(db: &impl ConnectionTrait, owner: BranchOwner<'_>, rule: &RefRule) -> Result<()> {
    let is_granted = rule
        .grants
        .iter()
        .any(|grant| grant.action == RefAction::Unprotect);
    if rule.level(RefAction::Unprotect).is_none() && !is_granted {
        return Ok(());
    }
    let subject = RuleSubject::load(db, owner.caller(), owner.role(), std::slice::from_ref(rule)).await?;
    match subject.is_admin() || subject.is_allowed(rule, RefAction::Unprotect) {
        true => Ok(()),
        false => Err(Error::forbidden_because(
            "You are not allowed to change the protection of this branch",
        )),
    }
}

fn lists_of(rule: &RefRule) -> [AccessList; 3] {
    [RefAction::Push, RefAction::Merge, RefAction::Unprotect].map(|action| AccessList::of_rule(rule, action))
}

/// Returns the columns for access lists, and for whether the rule allows force pushes and requires code owners.
fn columns(
    [push, merge, unprotect]: &[AccessList; 3],
    (allow_force_push, code_owners): (bool, bool),
) -> RuleColumns {
    RuleColumns {
        push: push.level,
        merge: merge.level,
        unprotect: (unprotect.level > 0).then_some(unprotect.level),
        allow_force_push,
        code_owners,
    }
}

/// Inserts a rule of a locked owner.
async fn insert(
    transaction: &DatabaseTransaction,
    owner: BranchOwner<'_>,
    name: &str,
    columns: RuleColumns,
    lists: &[AccessList],
) -> Result<RefRule> {
    if owner.count(transaction).await? >= MAX_RULES {
        return Err(too_many("branches"));
    }
    if let BranchOwner::Project(access) = owner {
        grantees::check_added(transaction, &access.project, lists).await?;
    }
    let id = owner.insert(transaction, name, columns).await?;
    grantees::save(transaction, GrantOwner::Branch(id), None, lists).await?;
    let rule = find_own(transaction, owner, name).await?.ok_or_else(not_found)?;
    let event = branch_event(owner.audit_entity(), AuditKind::BranchProtected, &rule);
    audit::record(transaction, owner.caller(), event.to(branch_text(&rule))).await?;
    Ok(rule)
}

/// Stores the changes of a rule, if there are any.
async fn save(
    transaction: &DatabaseTransaction,
    owner: BranchOwner<'_>,
    former: RefRule,
    flags: (bool, bool),
    lists: &[AccessList; 3],
) -> Result<RefRule> {
    if let BranchOwner::Project(access) = owner {
        grantees::check_added(transaction, &access.project, lists).await?;
    }
    let has_changed_grants =
        grantees::save(transaction, GrantOwner::Branch(former.id), Some(&former), lists).await?;
    let columns = columns(lists, flags);
    owner
        .update(transaction, &former.name, columns, has_changed_grants)
        .await?;
    let rule = find_own(transaction, owner, &former.name).await?;
    let rule = rule.ok_or_else(not_found)?;
    if branch_text(&rule) != branch_text(&former) {
        let event = branch_event(owner.audit_entity(), AuditKind::BranchProtectionChanged, &rule);
        let event = event.from(branch_text(&former)).to(branch_text(&rule));
        audit::record(transaction, owner.caller(), event).await?;
    }
    Ok(rule)
}

async fn remove(transaction: &DatabaseTransaction, owner: BranchOwner<'_>, rule: &RefRule) -> Result<()> {
    owner.delete(transaction, rule.id).await?;
    let event = branch_event(owner.audit_entity(), AuditKind::BranchUnprotected, rule);
    audit::record(transaction, owner.caller(), event.from(branch_text(rule))).await
}
