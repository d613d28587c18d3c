//! Transfers groups within the hierarchy, and projects into groups.

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, DatabaseTransaction, EntityTrait, IntoActiveModel,
    QueryFilter, QuerySelect,
};
use storage::entities::members::{self, MembershipSource};
use storage::entities::{
    AccessLevel, Scope, fold, former_paths, namespace_ancestors, namespaces, now, users,
};

use crate::audit::{self, Actor, AuditEntity, AuditEvent, AuditKind};
use crate::identity::access::{GroupAccess, ProjectAccess};
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::lifecycle::transfer::inherited::InheritedItems;
use crate::lifecycle::transfer::projects;
use crate::spaces::groups::edit::lock_sharing_below;
use crate::spaces::groups::rules::{self, MAX_DEPTH};
use crate::spaces::members::auditing::assigned;

/// Transfers a group with its contents to another parent or to the top level.
///
/// # Errors
/// Returns `Error::Forbidden` if the caller cannot create groups in the parent. Returns `Error::NotFound` if the
/// parent is not visible to the caller. Returns `Error::InvalidAttributes` if the target is invalid.
pub async fn transfer(backend: &Backend, access: GroupAccess, parent_id: Option<i64>) -> Result<GroupAccess> {
    let actor = Actor::from(&access.caller);
    transfer_as(backend, &actor, access, parent_id).await
}

/// Like [`transfer`], with the permissions of the caller, but recorded as an action of `actor`. A group without Owners
/// of its own that becomes a top-level group gets the caller as Owner.
///
/// # Errors
/// Returns the errors of [`transfer`].
pub async fn transfer_as(
    backend: &Backend,
    actor: &Actor,
    access: GroupAccess,
    parent_id: Option<i64>,
) -> Result<GroupAccess> {
    let GroupAccess { caller, group, .. } = access;
    let user = caller.signed_in()?;
    let parent = rules::find_parent(backend, &caller, parent_id).await?;
    backend
        .database
        .transaction(async |transaction| {
            namespaces::lock_trees(transaction).await?;
            let parent = match parent {
                Some(parent) => Some(rules::lock(transaction, parent.id).await?),
                None => None,
            };
            let current = rules::lock(transaction, group.id).await?;
            check_target(transaction, &current, parent.as_ref()).await?;
            let full_path = rules::full_path(parent.as_ref(), &current.path);
            rules::check_path_available(transaction, &full_path).await?;
            rules::check_name_available(transaction, parent_id, &current.name_key).await?;
            let mut row = current.clone().into_active_model();
            row.parent_id = Set(parent_id);
            row.full_path_key = Set(fold(&full_path));
            row.full_path = Set(full_path);
            row.updated_at = Set(now());
            let moved = row
                .update(transaction)
                .await
                .map_err(rules::map_unique_violation)?;
            namespaces::rename_below(transaction, &current, &moved.full_path).await?;
            former_paths::record_namespace(transaction, current.parent_id, &current.path, moved.id).await?;
            let before = namespace_ancestors::of(transaction, moved.id).await?;
            namespace_ancestors::relink(transaction, moved.id, parent_id).await?;
            let after = namespace_ancestors::of(transaction, moved.id).await?;
            let inherited = InheritedItems::new(Scope::Group(moved.id), &before, &after);
            inherited.lock(transaction).await?;
            inherited.reassign(transaction).await?;
            let event = AuditEvent::of(AuditKind::GroupTransferred, AuditEntity::namespace(&moved));
            let mut audited = vec![event.from(&current.full_path).to(&moved.full_path)];
            match parent {
                Some(parent) if parent.share_with_group_lock => {
                    lock_sharing_below(transaction, moved.id).await?;
                }
                Some(_) => {}
                None => audited.extend(ensure_owner(transaction, &moved, user).await?),
            }
            audit::record_all(transaction, actor, audited).await
        })
        .await?;
    GroupAccess::find(backend, caller, &group.id.to_string()).await
}

/// Transfers a project to a group.
///
/// # Errors
/// Returns `Error::NotFound` if the project is not visible to the caller. Otherwise fails like
/// [`projects::transfer`].
pub async fn transfer_project(
    backend: &Backend,
    access: &GroupAccess,
    project: &str,
) -> Result<ProjectAccess> {
    let project = ProjectAccess::find(backend, access.caller.clone(), project).await?;
    projects::transfer(backend, project, access.group.id).await
}

/// Rejects a target that is the current parent, is in the group, is nested too deeply or has a lower
/// visibility. Also rejects a path that is reserved in the target.
async fn check_target(
    transaction: &DatabaseTransaction,
    group: &namespaces::Model,
    parent: Option<&namespaces::Model>,
) -> Result<()> {
    let invalid = |text: &'static str| Err(Error::attribute("group_id", text));
    if group.parent_id == parent.map(|parent| parent.id) {
        return invalid("is already the parent of the group");
    }
    rules::check_names(None, Some(&group.path), parent.is_none())?;
    let Some(parent) = parent else { return Ok(()) };
    let ancestors = namespace_ancestors::of(transaction, parent.id).await?;
    if ancestors.iter().any(|row| row.ancestor_id == group.id) {
        return invalid("must not be the group itself or one of its subgroups");
    }
    let height: Option<i32> = namespace_ancestors::Entity::find()
        .select_only()
        .column_as(namespace_ancestors::Column::Depth.max(), "height")
        .filter(namespace_ancestors::Column::AncestorId.eq(group.id))
        .into_tuple()
        .one(transaction)
        .await?
        .flatten();
    let height = usize::try_from(height.unwrap_or(0)).unwrap_or(MAX_DEPTH);
    if ancestors.len() + height >= MAX_DEPTH {
        return invalid("has too deep level of nesting");
    }
    rules::check_visibility(Some(parent), group.visibility)
}

/// Assigns the Owner role to a user in a group without direct Owners, which relied on those of its previous
/// parent. Returns the audit event.
async fn ensure_owner(
    transaction: &DatabaseTransaction,
    group: &namespaces::Model,
    user: &users::Model,
) -> Result<Option<AuditEvent>> {
    let (group_id, user_id) = (group.id, user.id);
    if members::owners(transaction, group_id, now().date_naive()).await? > 0 {
        return Ok(None);
    }
    let known = members::direct(transaction, MembershipSource::Group(group_id), user_id).await?;
    let row = match known.clone() {
        Some(member) => member.into_active_model(),
        None => members::ActiveModel {
            user_id: Set(user_id),
            namespace_id: Set(Some(group_id)),
            created_by_id: Set(Some(user_id)),
            created_at: Set(now()),
            ..Default::default()
        },
    };
    let row = members::ActiveModel {
        access_level: Set(AccessLevel::Owner),
        expires_at: Set(None),
        updated_at: Set(now()),
        ..row
    };
    row.save(transaction).await?;
    let entity = AuditEntity::namespace(group);
    Ok(Some(assigned(entity, user, known.as_ref(), AccessLevel::Owner)))
}
