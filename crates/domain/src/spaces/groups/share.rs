//! Shares of groups with other groups.

use chrono::NaiveDate;
use sea_orm::{ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, QueryFilter};
use storage::database::Violation;
use storage::entities::{AccessLevel, group_shares, namespace_ancestors, namespaces, now};

use crate::audit::{self, AuditKind, AuditTarget};
use crate::identity::access::GroupAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::preconditions::check_unmodified_since;
use crate::spaces::members::shares;

/// Shares a group: members of another group get their role in this one, limited to `level`.
///
/// # Errors
/// Returns `Error::NotFound` if the other group is not visible to the caller. Returns `Error::Conflict` if
/// the group is shared with it already, or it is the group itself or an ancestor. Returns
/// `Error::InvalidParameters` if the access level is unknown.
pub async fn share(
    backend: &Backend,
    access: GroupAccess,
    with_group_id: i64,
    level: i64,
    expires_at: Option<NaiveDate>,
) -> Result<GroupAccess> {
    let level = AccessLevel::from_number(level)
        .ok_or_else(|| Error::value_not_allowed("group_access", AccessLevel::numbers()))?;
    let guest = GroupAccess::find(backend, access.caller.clone(), &with_group_id.to_string()).await?;
    let event = shares::added(
        AuditKind::GroupShared,
        access.audit_entity(),
        &guest.group,
        level,
        expires_at,
    );
    let (group_id, guest_id) = (access.group.id, guest.group.id);
    backend
        .database
        .transaction(async |transaction| {
            namespaces::lock_trees_shared(transaction).await?;
            let line = namespace_ancestors::of(transaction, group_id).await?;
            if line.iter().any(|above| above.ancestor_id == guest_id) {
                return Err(already_shared());
            }
            // An expired share still has its row until the next sweep.
            group_shares::Entity::delete_many()
                .filter(group_shares::Column::NamespaceId.eq(group_id))
                .filter(group_shares::Column::WithGroupId.eq(guest_id))
                .filter(group_shares::Column::ExpiresAt.lte(now().date_naive()))
                .exec(transaction)
                .await?;
            let at = now();
            let row = group_shares::ActiveModel {
                namespace_id: Set(group_id),
                with_group_id: Set(guest_id),
                access_level: Set(level),
                expires_at: Set(expires_at),
                created_at: Set(at),
                updated_at: Set(at),
                ..Default::default()
            };
            row.insert(transaction)
                .await
                .map_err(|error| match Violation::of(&error) {
                    Some(Violation::Unique(_)) => already_shared(),
                    Some(Violation::ForeignKey(_)) => Error::not_found("Group"),
                    _ => error.into(),
                })?;
            audit::record(transaction, &access.caller, event).await
        })
        .await?;
    Ok(access)
}

fn already_shared() -> Error {
    Error::Conflict("Group already shared with this group".into())
}

/// Deletes a share.
///
/// # Errors
/// Returns `Error::NotFound` if the share does not exist. Returns `Error::PreconditionFailed` if it changed
/// after `if_unmodified_since`.
pub async fn unshare(
    backend: &Backend,
    access: &GroupAccess,
    with_group_id: i64,
    if_unmodified_since: Option<&str>,
) -> Result<()> {
    let missing = || Error::not_found("Group Link");
    backend
        .database
        .transaction(async |transaction| {
            let share = group_shares::of(access.group.id, now().date_naive())
                .filter(group_shares::Column::WithGroupId.eq(with_group_id))
                .one(transaction)
                .await?;
            let (share, group) = share.ok_or_else(missing)?;
            check_unmodified_since(if_unmodified_since, share.updated_at)?;
            let ended = group_shares::Entity::delete_by_id(share.id)
                .exec(transaction)
                .await?;
            if ended.rows_affected == 0 {
                return Err(missing());
            }
            let group = AuditTarget::group(&group.ok_or_else(missing)?);
            let (entity, level) = (access.audit_entity(), share.access_level);
            let event = shares::removed(AuditKind::GroupUnshared, entity, group, level, share.expires_at);
            audit::record(transaction, &access.caller, event).await
        })
        .await
}
