//! States of users: blocked, deactivated, and locked after failed sign-ins.
//!
//! Each change locks the row of the user first and checks the locked row: the row that the caller loaded may be
//! outdated, and a sign-in in progress changes the row too.

use chrono::TimeDelta;
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, DatabaseTransaction, EntityTrait, PaginatorTrait,
    QueryFilter,
};
use storage::entities::users::UserState;
use storage::entities::{access_tokens, now, pipeline_schedules, users};

use crate::audit::{self, Actor, AuditEntity, AuditEvent, AuditKind};
use crate::identity::access::UserAccess;
use crate::identity::{password_attempts, sessions};
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};

/// Minimum time without activity before a user can be deactivated.
const INACTIVITY: TimeDelta = TimeDelta::days(180);

/// Blocks a user; returns `false` if they were blocked already.
///
/// # Errors
/// Returns `Forbidden` if the caller is the user, and the errors of [`block_as`].
pub async fn block(backend: &Backend, access: &UserAccess) -> Result<bool> {
    let id = access.user.id;
    if access.caller.as_user().is_some_and(|caller| caller.id == id) {
        return Err(Error::forbidden_because(
            "The API initiating user cannot be blocked by the API",
        ));
    }
    block_as(backend, &Actor::from(&access.caller), id).await
}

/// Like [`block`], for an actor who need not be a user.
///
/// # Errors
/// Returns `Forbidden` for the last administrator, and if the directory blocked the user. Returns `NotFound` if the
/// user was deleted concurrently.
pub async fn block_as(backend: &Backend, actor: &Actor, id: i64) -> Result<bool> {
    backend
        .database
        .transaction(async |transaction| {
            // Locked together, so that two administrators cannot block each other.
            let administrators = users::lock_administrators(transaction).await?;
            let user = lock(transaction, id).await?;
            check_not_directory_managed(&user)?;
            if is_last(&administrators, id) {
                return Err(Error::forbidden_because(
                    "The last administrator cannot be blocked; make another user an administrator first",
                ));
            }
            let changes = user.state != UserState::Blocked;
            if changes {
                set_state(transaction, actor, &user, UserState::Blocked).await?;
            }
            sessions::delete_all(transaction, id).await?;
            pipeline_schedules::deactivate_of(transaction, id, now()).await?;
            Ok(changes)
        })
        .await
}

/// Unblocks a user; returns `false` if they were not blocked.
///
/// # Errors
/// Returns `Forbidden` for users blocked by the directory, and for deactivated ones, who are activated by
/// signing in. Returns `NotFound` if the user was deleted concurrently.
pub async fn unblock(backend: &Backend, access: &UserAccess) -> Result<bool> {
    unblock_as(backend, &Actor::from(&access.caller), access.user.id).await
}

/// Like [`unblock`], for an actor who need not be a user.
///
/// # Errors
/// Returns the errors of [`unblock`].
pub async fn unblock_as(backend: &Backend, actor: &Actor, id: i64) -> Result<bool> {
    backend
        .database
        .transaction(async |transaction| {
            let user = lock(transaction, id).await?;
            check_not_directory_managed(&user)?;
            match user.state {
                UserState::Deactivated => Err(Error::forbidden_because(
                    "Deactivated users cannot be unblocked by the API",
                )),
                UserState::Blocked => set_state(transaction, actor, &user, UserState::Active)
                    .await
                    .map(|()| true),
                UserState::Active | UserState::LdapBlocked => Ok(false),
            }
        })
        .await
}

/// Deactivates a user until they sign in again; returns `false` if they were deactivated already.
///
/// # Errors
/// Returns `Forbidden` if the caller is the user, for users who are blocked or were active recently, and for
/// bots. Returns `NotFound` if the user was deleted concurrently.
pub async fn deactivate(backend: &Backend, access: &UserAccess) -> Result<bool> {
    let id = access.user.id;
    if access.caller.as_user().is_some_and(|caller| caller.id == id) {
        return Err(Error::forbidden_because(
            "The API initiating user cannot be deactivated by the API",
        ));
    }
    let actor = Actor::from(&access.caller);
    backend
        .database
        .transaction(async |transaction| {
            let user = lock(transaction, id).await?;
            if user.state == UserState::Deactivated {
                return Ok(false);
            }
            check_can_be_deactivated(transaction, &user).await?;
            set_state(transaction, &actor, &user, UserState::Deactivated).await?;
            sessions::delete_all(transaction, id).await?;
            Ok(true)
        })
        .await
}

async fn check_can_be_deactivated(transaction: &DatabaseTransaction, user: &users::Model) -> Result<()> {
    if matches!(user.state, UserState::Blocked | UserState::LdapBlocked) {
        return Err(Error::forbidden_because(
            "A blocked user cannot be deactivated by the API",
        ));
    }
    if user.bot {
        return Err(Error::forbidden_because(
            "An internal user cannot be deactivated by the API",
        ));
    }
    if was_active(transaction, user).await? {
        return Err(Error::forbidden_because(
            "The user you are trying to deactivate has been active in the past 180 days and cannot be deactivated",
        ));
    }
    Ok(())
}

async fn was_active(transaction: &DatabaseTransaction, user: &users::Model) -> Result<bool> {
    let limit = now() - INACTIVITY;
    let signed_in = user.current_sign_in_at.is_some_and(|instant| instant > limit);
    let acted = user.last_activity_on.is_some_and(|day| day > limit.date_naive());
    if signed_in || acted {
        return Ok(true);
    }
    let used = access_tokens::Entity::find()
        .filter(access_tokens::Column::UserId.eq(user.id))
        .filter(access_tokens::Column::LastUsedAt.gt(limit))
        .count(transaction)
        .await?;
    Ok(used > 0)
}

/// Activates a deactivated user; returns `false` if they were active.
///
/// # Errors
/// Returns `Forbidden` for blocked users. Returns `NotFound` if the user was deleted concurrently.
pub async fn activate(backend: &Backend, access: &UserAccess) -> Result<bool> {
    let actor = Actor::from(&access.caller);
    backend
        .database
        .transaction(async |transaction| {
            let user = lock(transaction, access.user.id).await?;
            match user.state {
                UserState::Blocked | UserState::LdapBlocked => Err(Error::forbidden_because(
                    "A blocked user must be unblocked to be activated",
                )),
                UserState::Deactivated => set_state(transaction, &actor, &user, UserState::Active)
                    .await
                    .map(|()| true),
                UserState::Active => Ok(false),
            }
        })
        .await
}

/// Deletes the failed password attempts of a user, so that the user can sign in before these attempts expire.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn unlock(backend: &Backend, access: &UserAccess) -> Result<()> {
    let key = backend.keyring.current(&backend.database).await?;
    backend
        .database
        .transaction(async |transaction| {
            password_attempts::delete_all(transaction, &key, &access.user).await?;
            let event = AuditEvent::of(AuditKind::UserUnlocked, AuditEntity::user(&access.user));
            audit::record(transaction, &access.caller, event).await
        })
        .await
}

/// Returns whether a user is the only one of the active administrators, who are locked.
pub(super) fn is_last(administrators: &[users::Model], user_id: i64) -> bool {
    matches!(administrators, [last] if last.id == user_id)
}

fn check_not_directory_managed(user: &users::Model) -> Result<()> {
    match user.state {
        UserState::LdapBlocked => Err(Error::forbidden_because(
            "LDAP blocked users cannot be modified by the API",
        )),
        _ => Ok(()),
    }
}

async fn lock(transaction: &DatabaseTransaction, user_id: i64) -> Result<users::Model> {
    let found = users::lock(transaction, user_id).await?;
    found.ok_or_else(|| Error::not_found("User"))
}

/// Sets the state of a locked user, and records the change.
async fn set_state(
    transaction: &DatabaseTransaction,
    actor: &Actor,
    user: &users::Model,
    state: UserState,
) -> Result<()> {
    let kind = match (user.state, state) {
        (UserState::Blocked | UserState::LdapBlocked, UserState::Active) => AuditKind::UserUnblocked,
        (_, UserState::Active) => AuditKind::UserActivated,
        (_, UserState::Deactivated) => AuditKind::UserDeactivated,
        (_, UserState::Blocked | UserState::LdapBlocked) => AuditKind::UserBlocked,
    };
    let event = AuditEvent::of(kind, AuditEntity::user(user));
    let event = event.from(user.state.name()).to(state.name());
    audit::record(transaction, actor, event).await?;
    let change = users::ActiveModel {
        id: Set(user.id),
        state: Set(state),
        updated_at: Set(now()),
        ..Default::default()
    };
    change.update(transaction).await?;
    Ok(())
}
