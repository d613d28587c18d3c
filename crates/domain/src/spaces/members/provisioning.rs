//! Members that the identity provider of a group provisions.

use sea_orm::{ActiveModelTrait, ActiveValue::Set, DatabaseTransaction, IntoActiveModel, ModelTrait};
use storage::entities::members::{self, MembershipSource};
use storage::entities::{AccessLevel, namespaces, now, scim_identities, users};

use super::inherited::at_least_inherited;
use super::{auditing, delete_below, insert};
use crate::audit::{self, Actor, AuditEntity};
use crate::kernel::error::{Error, Result};

/// Adds a user to a group with this role, or with the inherited role if that is higher. A current membership
/// is unchanged. The caller has locked the group.
///
/// # Errors
/// Returns `NotFound` if the user was deleted concurrently.
pub(crate) async fn add_provisioned(
    transaction: &DatabaseTransaction,
    actor: &Actor,
    group: &namespaces::Model,
    user: &users::Model,
    level: AccessLevel,
) -> Result<()> {
    let (group_id, user_id) = (group.id, user.id);
    let known = members::direct(transaction, MembershipSource::Group(group_id), user_id).await?;
    if known
        .as_ref()
        .is_some_and(|member| !member.has_ended(now().date_naive()))
    {
        return Ok(());
    }
    let level = at_least_inherited(transaction, group_id, user_id, level).await?;
    let Some(member) = known else {
        let at = now();
        let row = members::ActiveModel {
            user_id: Set(user_id),
            namespace_id: Set(Some(group_id)),
            access_level: Set(level),
            created_at: Set(at),
            updated_at: Set(at),
            ..Default::default()
        };
        insert(transaction, row).await?;
        let event = auditing::added(AuditEntity::namespace(group), user, level, None);
        return audit::record(transaction, actor, event).await;
    };
    let event = auditing::added(AuditEntity::namespace(group), user, level, None);
    audit::record(transaction, actor, event).await?;
    let mut row = member.into_active_model();
    row.access_level = Set(level);
    row.expires_at = Set(None);
    row.updated_at = Set(now());
    row.update(transaction).await?;
    Ok(())
}

/// Detaches a member who leaves from the identity provider of the group. A user who leaves voluntarily is
/// detached permanently; a removed user can be provisioned again. The caller has locked the group.
///
/// # Errors
/// Returns an error if a database query fails.
pub(super) async fn detach(
    transaction: &DatabaseTransaction,
    group_id: i64,
    user_id: i64,
    by_themselves: bool,
) -> Result<()> {
    let found = scim_identities::at_group(group_id, user_id);
    let Some(identity) = found.one(transaction).await? else {
        return Ok(());
    };
    if by_themselves {
        identity.delete(transaction).await?;
    } else if identity.extern_uid.is_some() {
        identity.ended().update(transaction).await?;
    }
    Ok(())
}

/// Removes a user's memberships in a group and its subgroups and projects. The caller has locked the group.
///
/// # Errors
/// Returns `Forbidden` for the last Owner of the group.
pub(crate) async fn remove_provisioned(
    transaction: &DatabaseTransaction,
    actor: &Actor,
    group_id: i64,
    user: &users::Model,
) -> Result<()> {
    let member = members::direct(transaction, MembershipSource::Group(group_id), user.id).await?;
    if let Some(member) = member
        && member.is_last_owner(transaction, now().date_naive()).await?
    {
        return Err(Error::forbidden_because(
            "The last owner of the group cannot be deprovisioned",
        ));
    }
    let removals = delete_below(transaction, group_id, user).await?;
    audit::record_all(transaction, actor, removals).await
}
