//! Updates and deprovisions users.

use parsers::scim::{ScimUserUpdate, UserOperation, merge_operations};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, DatabaseTransaction, DbErr, IntoActiveModel};
use storage::database::Violation;
use storage::entities::{fold, now, scim_identities, users};

use super::{ScimUser, addresses, not_found, usernames};
use crate::accounts::users::provisioning::{self, ProvidedEmail};
use crate::audit::{self, Actor, AuditEntity, AuditEvent, AuditKind, AuditTarget};
use crate::identity::access::ScimAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::spaces::members;
use crate::spaces::single_sign_on::lock;

/// Applies all changes of a user atomically. Returns the user, and whether they are still provisioned.
///
/// # Errors
/// Returns `NotFound` if the user does not exist, and `InvalidScimRequest` for invalid operations. Returns
/// `Conflict` if the ID, user name or address is taken. Returns `Forbidden` for the deprovisioning of the
/// last Owner and for accounts of administrators.
pub async fn update(
    backend: &Backend,
    access: &ScimAccess,
    extern_uid: &str,
    operations: Vec<UserOperation>,
) -> Result<(ScimUser, bool)> {
    backend
        .database
        .transaction(async |transaction| {
            let found = lock_user(transaction, access, extern_uid).await?;
            let changes = merge_operations(operations)?;
            if changes.active == Some(false) {
                end_provisioning(transaction, access, found.clone()).await?;
                return Ok((found, false));
            }
            Ok((apply(transaction, access, found, changes).await?, true))
        })
        .await
}

/// Deprovisions a user: removes their memberships in the group and its subgroups and projects. The account
/// remains.
///
/// # Errors
/// Returns `NotFound` if the user does not exist, and `Forbidden` for the last Owner of the group.
pub async fn deprovision(backend: &Backend, access: &ScimAccess, extern_uid: &str) -> Result<()> {
    backend
        .database
        .transaction(async |transaction| {
            let found = lock_user(transaction, access, extern_uid).await?;
            end_provisioning(transaction, access, found).await
        })
        .await
}

/// Returns a provisioned user and locks the group, so that two Owners cannot be removed at the same time, and
/// the user.
async fn lock_user(
    transaction: &DatabaseTransaction,
    access: &ScimAccess,
    extern_uid: &str,
) -> Result<ScimUser> {
    lock(transaction, access.group.id).await?;
    let found = scim_identities::by_extern_uid(transaction, access.provider.id, extern_uid).await?;
    let (identity, user) = found.ok_or_else(|| not_found(extern_uid))?;
    let user = users::lock(transaction, user.id).await?;
    let user = user.ok_or_else(|| not_found(extern_uid))?;
    Ok(ScimUser { identity, user })
}

async fn end_provisioning(
    transaction: &DatabaseTransaction,
    access: &ScimAccess,
    found: ScimUser,
) -> Result<()> {
    let actor = Actor::from(&access.caller);
    members::remove_provisioned(transaction, &actor, access.group.id, &found.user).await?;
    audit::record(
        transaction,
        &actor,
        event(AuditKind::ScimUserDeprovisioned, access, &found.user),
    )
    .await?;
    found.identity.ended().update(transaction).await?;
    Ok(())
}

fn event(kind: AuditKind, access: &ScimAccess, user: &users::Model) -> AuditEvent {
    AuditEvent::new(
        kind,
        AuditEntity::namespace(&access.group),
        AuditTarget::user(user),
    )
}

async fn apply(
    transaction: &DatabaseTransaction,
    access: &ScimAccess,
    found: ScimUser,
    changes: ScimUserUpdate,
) -> Result<ScimUser> {
    let ScimUser {
        mut identity,
        mut user,
    } = found;
    let full = changes.name();
    let uid = changes
        .uid
        .filter(|uid| identity.extern_uid.as_ref() != Some(uid));
    let called = changes.username.as_deref().map(fold);
    let called = called.filter(|called| identity.user_name_key != *called);
    if uid.is_some() || called.is_some() {
        let mut row = identity.into_active_model();
        if let Some(uid) = uid {
            row.extern_uid = Set(Some(uid));
        }
        if let Some(called) = called {
            row.user_name_key = Set(called);
        }
        row.updated_at = Set(now());
        identity = row.update(transaction).await.map_err(uid_taken)?;
        audit::record(
            transaction,
            &access.caller,
            event(AuditKind::ScimUserChanged, access, &user),
        )
        .await?;
    }
    let username = match &changes.username {
        Some(sent) => usernames::rename(transaction, &user, sent).await?,
        None => None,
    };
    let name = full.filter(|name| *name != user.name);
    let email = match changes.email {
        Some(address) => provided_email(transaction, access, &user, address).await?,
        None => None,
    };
    if username.is_some() || name.is_some() || email.is_some() {
        let actor = Actor::from(&access.caller);
        user = provisioning::update(transaction, &actor, user, username, name, email).await?;
    }
    Ok(ScimUser { identity, user })
}

/// Returns the address to store, or `None` if it and its confirmation are unchanged.
async fn provided_email(
    transaction: &DatabaseTransaction,
    access: &ScimAccess,
    user: &users::Model,
    address: String,
) -> Result<Option<ProvidedEmail>> {
    let same = address == user.email;
    if same && (user.admin || user.confirmed_at.is_some()) {
        return Ok(None);
    }
    let confirmed = addresses::claim(transaction, access, Some(user.id), &address).await?;
    Ok((!same || confirmed).then_some(ProvidedEmail { address, confirmed }))
}

fn uid_taken(error: DbErr) -> Error {
    match Violation::of(&error) {
        Some(Violation::Unique(_)) => Error::Conflict("externalId has already been taken".into()),
        _ => error.into(),
    }
}
