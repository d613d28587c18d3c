//! States of users: blocked and deactivated.

use chrono::TimeDelta;
use sea_orm::{ActiveValue::Set, ColumnTrait, DatabaseTransaction, EntityTrait, PaginatorTrait, QueryFilter};
use storage::entities::users::UserState;
use storage::entities::{access_tokens, now, pipeline_schedules, users};

use super::delete_sessions;
use crate::identity::access::UserAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};

/// Minimum time without activity before a user can be deactivated.
const INACTIVITY: TimeDelta = TimeDelta::days(180);

/// Blocks a user; returns `false` if they were blocked already.
///
/// # Errors
/// Returns `Forbidden` if the caller is the user, or if the directory blocked the user.
pub async fn block(backend: &Backend, access: &UserAccess) -> Result<bool> {
    let user = &access.user;
    if access.caller.as_user().is_some_and(|caller| caller.id == user.id) {
        return Err(Error::forbidden_because(
            "The API initiating user cannot be blocked by the API",
        ));
    }
    check_not_directory_managed(user)?;
    let (from, id) = ([UserState::Active, UserState::Deactivated], user.id);
    backend
        .database
        .transaction(async |transaction| {
            delete_sessions(transaction, id).await?;
            pipeline_schedules::deactivate_of(transaction, id, now()).await?;
            change_state(transaction, id, &from, UserState::Blocked).await
        })
        .await
}

/// Unblocks a user; returns `false` if they were not blocked.
///
/// # Errors
/// Returns `Forbidden` for users blocked by the directory, and for deactivated ones, who are activated by
/// signing in.
pub async fn unblock(backend: &Backend, user: &users::Model) -> Result<bool> {
    check_not_directory_managed(user)?;
    if user.state == UserState::Deactivated {
        return Err(Error::forbidden_because(
            "Deactivated users cannot be unblocked by the API",
        ));
    }
    let id = user.id;
    backend
        .database
        .transaction(async |transaction| {
            change_state(transaction, id, &[UserState::Blocked], UserState::Active).await
        })
        .await
}

/// Deactivates a user until they sign in again; returns `false` if they were deactivated already.
///
/// # Errors
/// Returns `Forbidden` if the caller is the user, for users who are blocked or were active recently, and for
/// bots.
pub async fn deactivate(backend: &Backend, access: &UserAccess) -> Result<bool> {
    let user = &access.user;
    if access.caller.as_user().is_some_and(|caller| caller.id == user.id) {
        return Err(Error::forbidden_because(
            "The API initiating user cannot be deactivated by the API",
        ));
    }
    match user.state {
        UserState::Blocked | UserState::LdapBlocked => {
            return Err(Error::forbidden_because(
                "A blocked user cannot be deactivated by the API",
            ));
        }
        UserState::Deactivated => return Ok(false),
        UserState::Active => {}
    }
    if user.bot {
        return Err(Error::forbidden_because(
            "An internal user cannot be deactivated by the API",
        ));
    }
    if was_active(backend, user).await? {
        return Err(Error::forbidden_because(
            "The user you are trying to deactivate has been active in the past 180 days and cannot be deactivated",
        ));
    }
    let id = user.id;
    backend
        .database
        .transaction(async |transaction| {
            delete_sessions(transaction, id).await?;
            change_state(transaction, id, &[UserState::Active], UserState::Deactivated).await
        })
        .await
}

async fn was_active(backend: &Backend, user: &users::Model) -> Result<bool> {
    let limit = now() - INACTIVITY;
    let signed_in = user.current_sign_in_at.is_some_and(|instant| instant > limit);
    let acted = user.last_activity_on.is_some_and(|day| day > limit.date_naive());
    if signed_in || acted {
        return Ok(true);
    }
    let used = access_tokens::Entity::find()
        .filter(access_tokens::Column::UserId.eq(user.id))
        .filter(access_tokens::Column::LastUsedAt.gt(limit))
        .count(backend.database.read())
        .await?;
    Ok(used > 0)
}

/// Activates a deactivated user; returns `false` if they were active.
///
/// # Errors
/// Returns `Forbidden` for blocked users.
pub async fn activate(backend: &Backend, user: &users::Model) -> Result<bool> {
    if matches!(user.state, UserState::Blocked | UserState::LdapBlocked) {
        return Err(Error::forbidden_because(
            "A blocked user must be unblocked to be activated",
        ));
    }
    let id = user.id;
    backend
        .database
        .transaction(async |transaction| {
            change_state(transaction, id, &[UserState::Deactivated], UserState::Active).await
        })
        .await
}

fn check_not_directory_managed(user: &users::Model) -> Result<()> {
    match user.state {
        UserState::LdapBlocked => Err(Error::forbidden_because(
            "LDAP blocked users cannot be modified by the API",
        )),
        _ => Ok(()),
    }
}

async fn change_state(
    transaction: &DatabaseTransaction,
    user_id: i64,
    from: &[UserState],
    to: UserState,
) -> Result<bool> {
    let change = users::ActiveModel {
        state: Set(to),
        updated_at: Set(now()),
        ..Default::default()
    };
    let done = users::Entity::update_many()
        .set(change)
        .filter(users::Column::Id.eq(user_id))
        .filter(users::Column::State.is_in(from.iter().copied()))
        .exec(transaction)
        .await?;
    Ok(done.rows_affected > 0)
}
