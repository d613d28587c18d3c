//! Push rules: conditions on the commits, files and refs that callers add to a project.
//!
//! A project has at most one rule, which `code::push_decision` enforces. The rule of a group is a template: a new project
//! copies the rule of the nearest group that has one, and later changes of the group do not affect the project (ADR 62).

mod attributes;
mod compiled;
mod inspection;
mod secrets;

use sea_orm::{ActiveModelTrait, ActiveValue::Set, EntityTrait, IntoActiveModel};
use storage::entities::push_rules::{ActiveModel, Entity, Model, of};
use storage::entities::{Scope, now, row_changes};

pub use attributes::PushRuleUpdate;
pub use compiled::CompiledRule;
pub use inspection::{CommitOrigin, find_violation};

use crate::audit::{self, AuditEvent, AuditKind, AuditTarget};
use crate::identity::space_access::{self, SpaceAccess};
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::preconditions;

/// Returns the rule of a project or group, if it has one.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn find(backend: &Backend, space: &SpaceAccess) -> Result<Option<Model>> {
    Ok(of(space.scope()).one(backend.database.read()).await?)
}

/// Returns the rule of a project or group.
///
/// # Errors
/// Returns `Error::NotFound` without a rule.
pub async fn get(backend: &Backend, space: &SpaceAccess) -> Result<Model> {
    find(backend, space).await?.ok_or_else(not_found)
}

/// Creates the rule of a project or group.
///
/// # Errors
/// Returns `Error::InvalidParameters` without an attribute, `Error::InvalidAttributes` if an attribute is not valid, and
/// `Error::Unprocessable` if there is a rule already.
pub async fn create(backend: &Backend, space: &SpaceAccess, new: PushRuleUpdate) -> Result<Model> {
    new.check_not_empty()?;
    let mut row = new_row(space.scope());
    new.apply(&mut row)?;
    backend
        .database
        .transaction(async |transaction| {
            space_access::lock(transaction, space.scope()).await?;
            if of(space.scope()).one(transaction).await?.is_some() {
                return Err(exists_already(space));
            }
            let rule = row.insert(transaction).await?;
            let event = event(space, AuditKind::PushRuleCreated, &rule);
            let event = event.to(attributes::summary(&rule));
            audit::record(transaction, &space.caller, event).await?;
            Ok(rule)
        })
        .await
}

/// Updates the rule of a project or group.
///
/// # Errors
/// Returns `Error::NotFound` without a rule, and `Error::InvalidAttributes` if an attribute is not valid.
pub async fn update(backend: &Backend, space: &SpaceAccess, change: PushRuleUpdate) -> Result<Model> {
    change.apply(&mut new_row(space.scope()))?;
    backend
        .database
        .transaction(async |transaction| {
            space_access::lock(transaction, space.scope()).await?;
            let former = of(space.scope()).one(transaction).await?.ok_or_else(not_found)?;
            let mut row = former.clone().into_active_model();
            change.apply(&mut row)?;
            let rule = row_changes::update_if_changed(transaction, &former, row).await?;
            if rule != former {
                let event = event(space, AuditKind::PushRuleChanged, &rule);
                let (from, to) = (attributes::summary(&former), attributes::summary(&rule));
                audit::record(transaction, &space.caller, event.from(from).to(to)).await?;
            }
            Ok(rule)
        })
        .await
}

/// Deletes the rule of a project or group.
///
/// # Errors
/// Returns `Error::NotFound` without a rule, and `Error::PreconditionFailed` if the rule changed after
/// `unmodified_since`.
pub async fn delete(backend: &Backend, space: &SpaceAccess, unmodified_since: Option<&str>) -> Result<()> {
    backend
        .database
        .transaction(async |transaction| {
            space_access::lock(transaction, space.scope()).await?;
            let rule = of(space.scope()).one(transaction).await?.ok_or_else(not_found)?;
            preconditions::check_unmodified_since(unmodified_since, rule.updated_at)?;
            Entity::delete_by_id(rule.id).exec(transaction).await?;
            let event = event(space, AuditKind::PushRuleDeleted, &rule);
            let event = event.from(attributes::summary(&rule));
            audit::record(transaction, &space.caller, event).await
        })
        .await
}

fn new_row(scope: Scope) -> ActiveModel {
    let at = now();
    ActiveModel {
        project_id: Set(scope.project_id()),
        namespace_id: Set(scope.namespace_id()),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    }
}

fn exists_already(space: &SpaceAccess) -> Error {
    Error::Unprocessable(match space.project {
        Some(_) => "Project push rule exists".into(),
        None => "Group push rule exists, try updating".into(),
    })
}

fn event(space: &SpaceAccess, kind: AuditKind, rule: &Model) -> AuditEvent {
    let target = AuditTarget::new("PushRule", rule.id, "push rule");
    AuditEvent::new(kind, space.audit_entity(), target)
}

fn not_found() -> Error {
    Error::not_found("Push rule")
}
