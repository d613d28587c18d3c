//! Push rules: conditions on the commits, files and refs that callers add to a project.
//!
//! A project has at most one rule, which `code::push_decision` enforces. The rule of a group is a template: a new project
//! copies the rule of the nearest group that has one, and later changes of the group do not affect the project (ADR 62).

mod attributes;
mod compiled;
mod inspection;
mod secrets;

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ConnectionTrait, DatabaseTransaction, EntityTrait, IntoActiveModel,
};
use storage::entities::push_rules::{self, ActiveModel, Entity, Model};
use storage::entities::{namespaces, now, projects, row_changes};

pub use attributes::PushRuleUpdate;
pub use compiled::CompiledRule;
pub use inspection::{CommitOrigin, find_violation};

use crate::audit::{self, AuditEntity, AuditEvent, AuditKind, AuditTarget};
use crate::identity::access::{GroupAccess, ProjectAccess};
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::kernel::preconditions;

/// A project or group, with the access of the caller.
#[derive(Debug, Clone, Copy)]
pub enum PushRuleOwner<'a> {
    /// A project.
    Project(&'a ProjectAccess),
    /// A group.
    Group(&'a GroupAccess),
}

impl PushRuleOwner<'_> {
    fn caller(&self) -> &Caller {
        match self {
            Self::Project(access) => &access.caller,
            Self::Group(access) => &access.caller,
        }
    }

    fn audit_entity(&self) -> AuditEntity {
        match self {
            Self::Project(access) => access.audit_entity(),
            Self::Group(access) => access.audit_entity(),
        }
    }

    async fn find(&self, db: &impl ConnectionTrait) -> Result<Option<Model>> {
        let rules = match self {
            Self::Project(access) => push_rules::of_project(access.project.id),
            Self::Group(access) => push_rules::of_group(access.group.id),
        };
        Ok(rules.one(db).await?)
    }

    /// Locks the owner, so that concurrent changes of its rule wait.
    async fn lock(&self, transaction: &DatabaseTransaction) -> Result<()> {
        let (is_present, kind) = match self {
            Self::Project(access) => {
                let locked = projects::lock_for_insert(transaction, access.project.id).await?;
                (locked.is_some(), "Project")
            }
            Self::Group(access) => {
                let locked = namespaces::lock(transaction, access.group.id).await?;
                (locked.is_some(), "Group")
            }
        };
        is_present.then_some(()).ok_or_else(|| Error::not_found(kind))
    }

    fn new_row(&self) -> ActiveModel {
        let (project_id, namespace_id) = match self {
            Self::Project(access) => (Some(access.project.id), None),
            Self::Group(access) => (None, Some(access.group.id)),
        };
        let at = now();
        ActiveModel {
            project_id: Set(project_id),
            namespace_id: Set(namespace_id),
            created_at: Set(at),
            updated_at: Set(at),
            ..Default::default()
        }
    }

    fn exists_already(&self) -> Error {
        Error::Unprocessable(match self {
            Self::Project(_) => "Project push rule exists".into(),
            Self::Group(_) => "Group push rule exists, try updating".into(),
        })
    }

    fn event(&self, kind: AuditKind, rule: &Model) -> AuditEvent {
        let target = AuditTarget::new("PushRule", rule.id, "push rule");
        AuditEvent::new(kind, self.audit_entity(), target)
    }
}

/// Returns the rule of a project or group, if it has one.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn find(backend: &Backend, owner: PushRuleOwner<'_>) -> Result<Option<Model>> {
    owner.find(backend.database.read()).await
}

/// Returns the rule of a project or group.
///
/// # Errors
/// Returns `Error::NotFound` without a rule.
pub async fn get(backend: &Backend, owner: PushRuleOwner<'_>) -> Result<Model> {
    find(backend, owner).await?.ok_or_else(not_found)
}

/// Creates the rule of a project or group.
///
/// # Errors
/// Returns `Error::InvalidParameters` without an attribute, `Error::InvalidAttributes` if an attribute is not valid, and
/// `Error::Unprocessable` if there is a rule already.
pub async fn create(backend: &Backend, owner: PushRuleOwner<'_>, new: PushRuleUpdate) -> Result<Model> {
    new.check_not_empty()?;
    let mut row = owner.new_row();
    new.apply(&mut row)?;
    backend
        .database
        .transaction(async |transaction| {
            owner.lock(transaction).await?;
            if owner.find(transaction).await?.is_some() {
                return Err(owner.exists_already());
            }
            let rule = row.insert(transaction).await?;
            let event = owner.event(AuditKind::PushRuleCreated, &rule);
            let event = event.to(attributes::summary(&rule));
            audit::record(transaction, owner.caller(), event).await?;
            Ok(rule)
        })
        .await
}

/// Updates the rule of a project or group.
///
/// # Errors
/// Returns `Error::NotFound` without a rule, and `Error::InvalidAttributes` if an attribute is not valid.
pub async fn update(backend: &Backend, owner: PushRuleOwner<'_>, change: PushRuleUpdate) -> Result<Model> {
    change.apply(&mut owner.new_row())?;
    backend
        .database
        .transaction(async |transaction| {
            owner.lock(transaction).await?;
            let former = owner.find(transaction).await?.ok_or_else(not_found)?;
            let mut row = former.clone().into_active_model();
            change.apply(&mut row)?;
            let rule = row_changes::update_if_changed(transaction, &former, row).await?;
            if rule != former {
                let event = owner.event(AuditKind::PushRuleChanged, &rule);
                let (from, to) = (attributes::summary(&former), attributes::summary(&rule));
                audit::record(transaction, owner.caller(), event.from(from).to(to)).await?;
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
pub async fn delete(
    backend: &Backend,
    owner: PushRuleOwner<'_>,
    unmodified_since: Option<&str>,
) -> Result<()> {
    backend
        .database
        .transaction(async |transaction| {
            owner.lock(transaction).await?;
            let rule = owner.find(transaction).await?.ok_or_else(not_found)?;
            preconditions::check_unmodified_since(unmodified_since, rule.updated_at)?;
            Entity::delete_by_id(rule.id).exec(transaction).await?;
            let event = owner.event(AuditKind::PushRuleDeleted, &rule);
            let event = event.from(attributes::summary(&rule));
            audit::record(transaction, owner.caller(), event).await
        })
        .await
}

fn not_found() -> Error {
    Error::not_found("Push rule")
}
