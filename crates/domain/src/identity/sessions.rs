//! Browser sessions: started with a password, identified by a cookie that is stored only as a digest.

use chrono::{DateTime, TimeDelta, Utc};
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter,
};
use storage::entities::users::UserState;
use storage::entities::{now, sessions, users};

use crate::identity::authentication::{self, csrf_token};
use crate::identity::password_attempts::{AttemptSource, CredentialContext};
use crate::identity::{known_addresses, password_attempts, passwords};
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::secrets::{self, Token};

/// Lifetime of a session.
pub const LIFETIME: TimeDelta = TimeDelta::days(14);

/// A sign-in attempt.
#[derive(Debug, Clone, Default)]
pub struct SignInAttempt {
    /// A user name or an email address.
    pub login: String,
    /// The password.
    pub password: String,
    /// The new password, if it must be changed.
    pub new_password: Option<String>,
    /// The client address, as text.
    pub address: Option<String>,
    /// The current session of the browser, which is ended.
    pub replaces: Option<String>,
}

/// Result of an attempt.
#[derive(Debug)]
pub enum SignInOutcome {
    /// A session was started; its secret is returned only here.
    SignedIn(String),
    /// The login or the password is wrong; the response does not distinguish them.
    Wrong,
    /// The password is correct, but must be changed.
    PasswordChangeRequired,
}

/// Starts a session if login and password are correct. An unknown account takes the same time.
///
/// # Errors
/// Returns [`Error::RateLimited`] after too many failures of the account or the address. Returns `Forbidden`
/// for disabled accounts, and a validation error for an invalid or unchanged new password.
pub async fn sign_in(backend: &Backend, attempt: SignInAttempt) -> Result<SignInOutcome> {
    let db = backend.database.read();
    let found = match attempt.login.contains('@') {
        true => users::by_email(db, &attempt.login).await?,
        false => users::by_username(db, &attempt.login).await?,
    };
    let address = attempt.address.as_deref();
    let context = CredentialContext::SignIn;
    let source = AttemptSource::of_login(backend, context, &attempt.login, found.as_ref(), address);
    password_attempts::check_limits(backend, &source).await?;
    let permit = password_attempts::acquire_permit().await?;
    // Counted before the password is verified, so that parallel attempts gain no advantage.
    let failure_id = password_attempts::record_attempt(backend, &source).await?;
    let password = attempt.password.clone();
    let (verified, permit) = password_attempts::verify(backend, permit, password, found).await?;
    let Some(user) = verified else {
        return Ok(SignInOutcome::Wrong);
    };
    password_attempts::reset(backend, failure_id).await?;
    drop(permit);
    check_may_sign_in(&user)?;
    let new_password_hash = match (user.password_change_required, attempt.new_password) {
        (false, _) => None,
        (true, None) => return Ok(SignInOutcome::PasswordChangeRequired),
        (true, Some(new)) if new == attempt.password => {
            return Err(Error::attribute(
                "password",
                "must differ from the current password",
            ));
        }
        (true, Some(new)) => Some(passwords::hash_password(new).await?),
    };
    let new = NewSession {
        new_password_hash,
        address: attempt.address,
        replaces: attempt.replaces,
    };
    start(backend, &user, new).await
}

/// Rejects accounts that are not active. Deactivated users are activated by signing in.
fn check_may_sign_in(user: &users::Model) -> Result<()> {
    match user.state {
        UserState::Deactivated => Ok(()),
        _ => authentication::check_account_active(user),
    }
}

/// A session to start.
#[derive(Debug, Clone, Default)]
pub struct NewSession {
    /// The hash of the new password, if it must be changed.
    pub new_password_hash: Option<String>,
    /// The client address, as text.
    pub address: Option<String>,
    /// The current session of the browser, which is ended.
    pub replaces: Option<String>,
}

/// Starts a session with a new ID for a user whose password was verified. Ends the previous session and expired
/// ones.
///
/// Verifying a password takes long enough for an administrator to block or delete the user or to replace the
/// password. So the transaction checks again that the row of the user still is as it was verified. If it is not,
/// no session is started, and the outcome is that of the current row.
///
/// # Errors
/// Returns `Forbidden` if the account was disabled in the meantime.
pub async fn start(backend: &Backend, verified: &users::Model, new: NewSession) -> Result<SignInOutcome> {
    let (secret, instant) = (Token::generate(""), now());
    let row = sessions::ActiveModel {
        digest: Set(secret.digest()),
        user_id: Set(verified.id),
        csrf_seed: Set(Token::generate("").expose().to_owned()),
        created_at: Set(instant),
        expires_at: Set(instant + LIFETIME),
        last_seen_at: Set(instant),
        ..Default::default()
    };
    let NewSession {
        new_password_hash,
        address,
        replaces,
    } = new;
    backend
        .database
        .transaction(async |transaction| {
            let has_new_password = new_password_hash.is_some();
            if !record_sign_in(transaction, verified, new_password_hash, instant).await? {
                return refusal(transaction, verified).await;
            }
            if has_new_password {
                revoke_former_password(transaction, verified.id).await?;
            }
            if let Some(address) = &address {
                let keyring = &backend.keyring;
                known_addresses::record(transaction, keyring, verified.id, address, instant).await?;
            }
            let mut ended = sessions::Column::ExpiresAt.lte(instant);
            if let Some(before) = &replaces {
                ended = ended.or(sessions::Column::Digest.eq(secrets::digest(before)));
            }
            sessions::Entity::delete_many()
                .filter(ended)
                .exec(transaction)
                .await?;
            row.insert(transaction).await?;
            Ok(SignInOutcome::SignedIn(secret.expose().to_owned()))
        })
        .await
}

/// Records a sign-in in the row of the user, and locks the row. Changes nothing and returns `false` if the row
/// no longer is as it was verified.
async fn record_sign_in(
    transaction: &DatabaseTransaction,
    verified: &users::Model,
    new_password_hash: Option<String>,
    instant: DateTime<Utc>,
) -> Result<bool> {
    let mut change = users::ActiveModel {
        state: Set(UserState::Active),
        current_sign_in_at: Set(Some(instant)),
        last_activity_on: Set(Some(instant.date_naive())),
        ..Default::default()
    };
    if new_password_hash.is_some() {
        change.password_hash = Set(new_password_hash);
        change.password_change_required = Set(false);
        change.updated_at = Set(instant);
    }
    let changed = users::Entity::update_many()
        .set(change)
        .col_expr(
            users::Column::LastSignInAt,
            Expr::col(users::Column::CurrentSignInAt),
        )
        .filter(users::Column::Id.eq(verified.id))
        .filter(users::Column::DeletionStartedAt.is_null())
        .filter(users::Column::State.is_in([UserState::Active, UserState::Deactivated]))
        .filter(users::Column::PasswordHash.eq(verified.password_hash.clone()))
        .filter(users::Column::PasswordChangeRequired.eq(verified.password_change_required))
        .exec(transaction)
        .await?;
    Ok(changed.rows_affected > 0)
}

/// Returns the outcome for a user whose row changed after the password was verified.
async fn refusal(transaction: &DatabaseTransaction, verified: &users::Model) -> Result<SignInOutcome> {
    let found = users::not_deleted()
        .filter(users::Column::Id.eq(verified.id))
        .one(transaction)
        .await?;
    let Some(user) = found.filter(|user| user.password_hash == verified.password_hash) else {
        return Ok(SignInOutcome::Wrong);
    };
    check_may_sign_in(&user)?;
    match user.password_change_required {
        true => Ok(SignInOutcome::PasswordChangeRequired),
        // The row was changed twice and is as it was.
        false => Err(Error::Contention),
    }
}

/// Ends the sessions of a user, and deletes the addresses that are known for the former password. Belongs into
/// the transaction that replaces the password, after the change of the user's row.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn revoke_former_password(transaction: &DatabaseTransaction, user_id: i64) -> Result<()> {
    delete_all(transaction, user_id).await?;
    known_addresses::delete_all(transaction, user_id).await
}

/// Ends the sessions of a user. Belongs into a transaction, after a change of the user's row: a sign-in changes
/// that row before it inserts a session, so that either this deletes the session, or the sign-in is refused.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn delete_all(transaction: &DatabaseTransaction, user_id: i64) -> Result<()> {
    sessions::Entity::delete_many()
        .filter(sessions::Column::UserId.eq(user_id))
        .exec(transaction)
        .await?;
    Ok(())
}

/// A signed-in user and the CSRF token of the session.
#[derive(Debug)]
pub struct ActiveSession {
    /// The user.
    pub user: users::Model,
    /// The CSRF token, required for writes.
    pub csrf_token: String,
}

/// Returns the session of a cookie, or `None` if it is unknown or has ended.
///
/// # Errors
/// Returns `Forbidden` for disabled accounts.
pub async fn find(backend: &Backend, secret: &str) -> Result<Option<ActiveSession>> {
    let found = sessions::by_digest(backend.database.read(), &secrets::digest(secret), now()).await?;
    let Some((session, user)) = found else {
        return Ok(None);
    };
    authentication::check_account_active(&user)?;
    Ok(Some(ActiveSession {
        csrf_token: csrf_token(&session),
        user,
    }))
}

/// Ends a session.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn delete(backend: &Backend, secret: &str) -> Result<()> {
    sessions::Entity::delete_many()
        .filter(sessions::Column::Digest.eq(secrets::digest(secret)))
        .exec(backend.database.write())
        .await?;
    Ok(())
}
