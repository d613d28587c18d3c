//! The rules of a project.

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, EntityTrait, IntoActiveModel,
    PaginatorTrait, QueryFilter,
};
use storage::entities::package_protection_rules::{ActiveModel, Column, Entity, Model, of_project};
use storage::entities::{now, row_changes};

use crate::audit::{self, AuditEvent, AuditKind, AuditTarget};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::patch::Patch;
use crate::kernel::preconditions::check_unmodified_since;
use crate::kernel::query::page_of;
use crate::packages::PackageType;
use crate::packages::access::check_access;
use crate::packages::usage::format_name;
use crate::spaces::projects::lock_for_insert;

pub use storage::entities::package_protection_rules::ProtectionLevel;

/// Maximum number of rules of a project. Each upload and deletion evaluates all rules.
const MAX_RULES: u64 = 100;

/// A new rule.
#[derive(Debug, Clone)]
pub struct NewProtectionRule {
    /// The name or pattern.
    pub name_pattern: String,
    /// The format.
    pub package_type: PackageType,
    /// The minimum access level for uploads.
    pub push_level: Option<ProtectionLevel>,
    /// The minimum access level for deletions.
    pub delete_level: Option<ProtectionLevel>,
}

/// Changes of a rule.
#[derive(Debug, Clone)]
pub struct ProtectionRuleChanges {
    /// The name or pattern.
    pub name_pattern: Option<String>,
    /// The format.
    pub package_type: Option<PackageType>,
    /// The minimum access level for uploads.
    pub push_level: Patch<ProtectionLevel>,
    /// The minimum access level for deletions.
    pub delete_level: Patch<ProtectionLevel>,
}

/// Returns a page of the rules of a project, oldest first.
///
/// # Errors
/// Returns `Forbidden` if the packages of the project are disabled.
pub async fn list(backend: &Backend, access: &ProjectAccess, page: &PageRequest) -> Result<Page<Model>> {
    check_access(access)?;
    page_of(backend.database.read(), of_project(access.project.id), page).await
}

/// Creates a rule.
///
/// # Errors
/// Returns `Error::Forbidden` if the packages of the project are disabled, and `Error::InvalidParameters` if the pattern is
/// invalid or no access level is set. Returns `Error::Unprocessable` if the project has a rule with the same pattern and
/// format, and `Error::Rejected` if it has [`MAX_RULES`] rules.
pub async fn create(backend: &Backend, access: &ProjectAccess, new: NewProtectionRule) -> Result<Model> {
    check_access(access)?;
    check_pattern(&new.name_pattern)?;
    check_levels(new.push_level, new.delete_level)?;
    let project_id = access.project.id;
    backend
        .database
        .transaction(async |transaction| {
            lock_for_insert(transaction, project_id).await?;
            check_unique(transaction, project_id, None, new.package_type, &new.name_pattern).await?;
            if of_project(project_id).count(transaction).await? >= MAX_RULES {
                let text = format!("The maximum number of package protection rules ({MAX_RULES}) is reached");
                return Err(Error::Rejected(text.into()));
            }
            let at = now();
            let row = ActiveModel {
                project_id: Set(project_id),
                package_type: Set(new.package_type),
                name_pattern: Set(new.name_pattern.clone()),
                push_level: Set(new.push_level),
                delete_level: Set(new.delete_level),
                created_at: Set(at),
                updated_at: Set(at),
                ..Default::default()
            };
            let rule = row.insert(transaction).await?;
            let event = event(AuditKind::PackageProtectionRuleCreated, access, &rule).to(described(&rule));
            audit::record(transaction, &access.caller, event).await?;
            Ok(rule)
        })
        .await
}

/// Updates a rule.
///
/// # Errors
/// Returns `Error::NotFound` if the project has no such rule, and otherwise as [`create`].
pub async fn update(
    backend: &Backend,
    access: &ProjectAccess,
    id: i64,
    changes: ProtectionRuleChanges,
) -> Result<Model> {
    check_access(access)?;
    if let Some(pattern) = &changes.name_pattern {
        check_pattern(pattern)?;
    }
    let project_id = access.project.id;
    backend
        .database
        .transaction(async |transaction| {
            lock_for_insert(transaction, project_id).await?;
            let rule = find(transaction, project_id, id).await?;
            let push = patched(rule.push_level, &changes.push_level);
            let delete = patched(rule.delete_level, &changes.delete_level);
            check_levels(push, delete)?;
            let pattern = changes
                .name_pattern
                .clone()
                .unwrap_or_else(|| rule.name_pattern.clone());
            let kind = changes.package_type.unwrap_or(rule.package_type);
            check_unique(transaction, project_id, Some(id), kind, &pattern).await?;
            let mut row = rule.clone().into_active_model();
            row.name_pattern = Set(pattern);
            row.package_type = Set(kind);
            row.push_level = Set(push);
            row.delete_level = Set(delete);
            let changed = row_changes::update_if_changed(transaction, &rule, row).await?;
            if changed != rule {
                let event = event(AuditKind::PackageProtectionRuleChanged, access, &changed);
                let event = event.from(described(&rule)).to(described(&changed));
                audit::record(transaction, &access.caller, event).await?;
            }
            Ok(changed)
        })
        .await
}

/// Deletes a rule.
///
/// # Errors
/// Returns `Error::Forbidden` if the packages of the project are disabled, `Error::NotFound` if the project has no such rule,
/// and `Error::PreconditionFailed` if the rule changed after `unmodified_since`.
pub async fn delete(
    backend: &Backend,
    access: &ProjectAccess,
    id: i64,
    unmodified_since: Option<&str>,
) -> Result<()> {
    check_access(access)?;
    let project_id = access.project.id;
    backend
        .database
        .transaction(async |transaction| {
            lock_for_insert(transaction, project_id).await?;
            let rule = find(transaction, project_id, id).await?;
            check_unmodified_since(unmodified_since, rule.updated_at)?;
            Entity::delete_by_id(id).exec(transaction).await?;
            let event = event(AuditKind::PackageProtectionRuleDeleted, access, &rule).from(described(&rule));
            audit::record(transaction, &access.caller, event).await
        })
        .await
}

async fn find(db: &impl ConnectionTrait, project_id: i64, id: i64) -> Result<Model> {
    let found = of_project(project_id).filter(Column::Id.eq(id)).one(db).await?;
    found.ok_or_else(|| Error::not_found(""))
}

fn patched(level: Option<ProtectionLevel>, change: &Patch<ProtectionLevel>) -> Option<ProtectionLevel> {
    match change {
        Patch::Keep => level,
        Patch::Clear => None,
        Patch::Set(level) => Some(*level),
    }
}

fn check_pattern(pattern: &str) -> Result<()> {
    match pattern.chars().any(char::is_control) || pattern.trim().is_empty() {
        true => Err(Error::parameter("package_name_pattern is invalid")),
        false => Ok(()),
    }
}

fn check_levels(push: Option<ProtectionLevel>, delete: Option<ProtectionLevel>) -> Result<()> {
    match push.or(delete) {
        Some(_) => Ok(()),
        None => Err(Error::parameter(
            "minimum_access_level_for_push or minimum_access_level_for_delete is required",
        )),
    }
}

/// Checks that no other rule of the project has this pattern and format.
async fn check_unique(
    db: &impl ConnectionTrait,
    project_id: i64,
    own_id: Option<i64>,
    kind: PackageType,
    pattern: &str,
) -> Result<()> {
    let same = of_project(project_id)
        .filter(Column::PackageType.eq(kind))
        .filter(Column::NamePattern.eq(pattern));
    match same.one(db).await? {
        Some(rule) if Some(rule.id) != own_id => Err(Error::Unprocessable(
            "Package name pattern has already been taken".into(),
        )),
        Some(_) | None => Ok(()),
    }
}

fn event(kind: AuditKind, access: &ProjectAccess, rule: &Model) -> AuditEvent {
    let target = AuditTarget::new("PackageProtectionRule", rule.id, rule.name_pattern.clone());
    AuditEvent::new(kind, access.audit_entity(), target)
}

/// Returns a rule for an audit event.
fn described(rule: &Model) -> String {
    let kind = format_name(rule.package_type);
    let level = |level: Option<ProtectionLevel>| match level {
        None => "none",
        Some(ProtectionLevel::Maintainer) => "maintainer",
        Some(ProtectionLevel::Owner) => "owner",
        Some(ProtectionLevel::Admin) => "admin",
    };
    let (push, delete) = (level(rule.push_level), level(rule.delete_level));
    format!("{kind} {}, push: {push}, delete: {delete}", rule.name_pattern)
}
