//! Transfers projects to other namespaces.

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, DatabaseTransaction, EntityTrait, IntoActiveModel,
    QueryFilter,
};
use storage::entities::members::{self, MembershipSource};
use storage::entities::namespaces::{self, NamespaceKind};
use storage::entities::{AccessLevel, Scope, former_paths, namespace_ancestors, now, projects, users};

use crate::audit::{self, Actor, AuditEntity, AuditEvent, AuditKind};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::lifecycle::transfer::inherited::InheritedItems;
use crate::spaces::members::auditing::assigned;
use crate::spaces::projects::auditing::changes;
use crate::spaces::projects::create::{check_available, map_unique_violation, target_id, target_namespace};

/// Like [`transfer`], with the ID or full path of the namespace.
///
/// # Errors
/// Returns the errors of [`transfer`].
pub async fn transfer_to(backend: &Backend, access: ProjectAccess, namespace: &str) -> Result<ProjectAccess> {
    let actor = Actor::from(&access.caller);
    transfer_to_as(backend, &actor, access, namespace).await
}

/// Like [`transfer_to`], with the permissions of the caller, but recorded as an action of `actor`.
///
/// # Errors
/// Returns the errors of [`transfer`].
pub async fn transfer_to_as(
    backend: &Backend,
    actor: &Actor,
    access: ProjectAccess,
    namespace: &str,
) -> Result<ProjectAccess> {
    let namespace_id = target_id(backend, namespace).await?;
    transfer_as(backend, actor, access, namespace_id).await
}

/// Transfers a project to another namespace. Members, shares and settings are unchanged. Its visibility is
/// lowered to that of the group if it exceeds it. Inherited labels, milestones and epics that are not
/// available there are replaced ([`InheritedItems`]).
///
/// # Errors
/// Returns `Forbidden` unless the caller is an Owner of the project. Returns `NotFound` if the namespace does
/// not exist or the caller cannot create projects in it. Returns a validation error if the namespace contains
/// the project already, or if its name or path is taken.
pub async fn transfer(backend: &Backend, access: ProjectAccess, namespace_id: i64) -> Result<ProjectAccess> {
    let actor = Actor::from(&access.caller);
    transfer_as(backend, &actor, access, namespace_id).await
}

async fn transfer_as(
    backend: &Backend,
    actor: &Actor,
    access: ProjectAccess,
    namespace_id: i64,
) -> Result<ProjectAccess> {
    if !access.has_role(AccessLevel::Owner) {
        return Err(Error::forbidden());
    }
    let caller = access.caller;
    let user = caller.signed_in()?.clone();
    let project_id = access.project.id;
    backend
        .database
        .transaction(async |transaction| {
            namespaces::lock_trees(transaction).await?;
            let target = target_namespace(transaction, &caller, &user, namespace_id).await?;
            let current = projects::not_deleted()
                .filter(projects::Column::Id.eq(project_id))
                .one(transaction)
                .await?;
            let current = current.ok_or_else(|| Error::not_found("Project"))?;
            // Every change of the project locks its namespace.
            let source = namespaces::lock(transaction, current.namespace_id).await?;
            let source = source.ok_or_else(|| Error::not_found("Project"))?;
            if current.namespace_id == target.id {
                return Err(Error::attribute("namespace", "already contains the project"));
            }
            check_available(transaction, &target, Some(&current.name), Some(&current.path)).await?;
            let visibility = match target.kind {
                NamespaceKind::User => current.visibility,
                NamespaceKind::Group => current.visibility.min(target.visibility),
            };
            let before = namespace_ancestors::of(transaction, current.namespace_id).await?;
            let after = namespace_ancestors::of(transaction, target.id).await?;
            let inherited = InheritedItems::new(Scope::Project(project_id), &before, &after);
            inherited.lock(transaction).await?;
            let mut row = current.clone().into_active_model();
            row.namespace_id = Set(target.id);
            row.visibility = Set(visibility);
            row.updated_at = Set(now());
            let moved = row.update(transaction).await.map_err(map_unique_violation)?;
            former_paths::record_project(transaction, source.id, &current.path, project_id).await?;
            inherited.reassign(transaction).await?;
            let entity = AuditEntity::project(&target, &moved);
            let event = AuditEvent::of(AuditKind::ProjectTransferred, entity.clone());
            let mut audited = vec![event.from(&source.full_path).to(&target.full_path)];
            audited.extend(changes(&target, &current, &moved));
            if let Some(owner) = target.owner_id {
                audited.extend(ensure_maintainer(transaction, entity, owner).await?);
            }
            audit::record_all(transaction, actor, audited).await
        })
        .await?;
    ProjectAccess::find(backend, caller, &project_id.to_string()).await
}

/// Makes the owner of a personal namespace a Maintainer of the project, and returns the audit event.
async fn ensure_maintainer(
    transaction: &DatabaseTransaction,
    entity: AuditEntity,
    user_id: i64,
) -> Result<Option<AuditEvent>> {
    let project_id = entity.id();
    let known = members::direct(transaction, MembershipSource::Project(project_id), user_id).await?;
    let row = match known.clone() {
        Some(member) => member.into_active_model(),
        None => members::ActiveModel {
            user_id: Set(user_id),
            project_id: Set(Some(project_id)),
            created_by_id: Set(Some(user_id)),
            created_at: Set(now()),
            ..Default::default()
        },
    };
    let row = members::ActiveModel {
        access_level: Set(AccessLevel::Maintainer),
        expires_at: Set(None),
        updated_at: Set(now()),
        ..row
    };
    row.save(transaction).await?;
    let is_unchanged =
        |known: &members::Model| known.access_level == AccessLevel::Maintainer && known.expires_at.is_none();
    if known.as_ref().is_some_and(is_unchanged) {
        return Ok(None);
    }
    let user = users::Entity::find_by_id(user_id).one(transaction).await?;
    Ok(user.map(|user| assigned(entity, &user, known.as_ref(), AccessLevel::Maintainer)))
}
