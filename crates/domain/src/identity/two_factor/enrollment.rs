//! Setup, change and removal of the second factor of a user.
//!
//! Each change locks the row of the user and ends the other sessions, so that a session that was started without
//! the second factor, or with a stolen one, does not remain.

use chrono::{DateTime, TimeDelta, Utc};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter,
};
use storage::entities::{now, two_factor_secrets, users};
use url::Url;

use super::codes;
use super::requirement::{self, TwoFactorRequirement};
use super::totp::SharedSecret;
use crate::audit::{self, Actor, AuditEntity, AuditEvent, AuditKind};
use crate::identity::password_attempts::{self, AttemptSource};
use crate::identity::sessions;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::secrets::Secret;

/// Time in which a setup must be confirmed with a code.
const SETUP_LIFETIME: TimeDelta = TimeDelta::hours(1);
/// Error of a code.
const WRONG_CODE: &str = "is wrong, expired or was used before";

/// The second factor of a user.
#[derive(Debug, Clone)]
pub struct TwoFactorStatus {
    /// When it was enabled; none without a second factor.
    pub enabled_at: Option<DateTime<Utc>>,
    /// Number of recovery codes that are left.
    pub recovery_codes_left: u64,
    /// Whether the instance or a group requires a second factor.
    pub required: bool,
    /// When the user has to have a second factor, if the period has started.
    pub grace_period_ends_at: Option<DateTime<Utc>>,
}

impl TwoFactorStatus {
    /// Returns whether the user had to set up a second factor before now.
    #[must_use]
    pub fn is_overdue(&self) -> bool {
        self.grace_period_ends_at.is_some_and(|end| end <= now())
    }
}

/// A setup that was started.
#[derive(Debug)]
pub struct TwoFactorSetup {
    /// The secret in Base32.
    pub secret: Secret<String>,
    /// The URI that transfers the secret to an authenticator app.
    pub uri: Secret<String>,
}

/// Returns the second factor of a user.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn status(backend: &Backend, user: &users::Model) -> Result<TwoFactorStatus> {
    let db = backend.database.read();
    let period = requirement::grace_period(backend, user.id).await?;
    let grace_period_ends_at = match period.apply(user, now()).1 {
        // Only the use of a password or session starts the period.
        _ if user.two_factor_grace_started_at.is_none() => None,
        TwoFactorRequirement::Met => None,
        TwoFactorRequirement::Grace(end) => end,
        TwoFactorRequirement::Overdue(end) => Some(end),
    };
    let row = two_factor_secrets::of_user(db, user.id).await?;
    let enabled_at = row.and_then(|row| row.enabled_at);
    let recovery_codes_left = match enabled_at {
        Some(_) => codes::recovery_codes_left(db, user.id).await?,
        None => 0,
    };
    Ok(TwoFactorStatus {
        enabled_at,
        recovery_codes_left,
        required: period.is_required(),
        grace_period_ends_at,
    })
}

/// Starts the setup of a second factor with a new secret, and discards an earlier setup.
///
/// # Errors
/// Returns a validation error if the password is wrong or the user has none, `Conflict` if the user has a second
/// factor, and [`Error::RateLimited`] after too many wrong passwords.
pub async fn start(
    backend: &Backend,
    actor: &Actor,
    user: &users::Model,
    password: String,
) -> Result<TwoFactorSetup> {
    check_not_enabled(user)?;
    let user = verified(backend, actor, user, password).await?;
    let secret = SharedSecret::generate();
    let uri = secret.uri(&issuer(backend), &user.username)?;
    let mut row = two_factor_secrets::ActiveModel {
        user_id: Set(user.id),
        created_at: Set(now()),
        ..Default::default()
    };
    backend
        .database
        .transaction(async |transaction| {
            let current = lock(transaction, user.id).await?;
            check_not_enabled(&current)?;
            if current.password_hash != user.password_hash {
                return Err(wrong_password());
            }
            delete_secret(transaction, user.id).await?;
            let encryptor = backend.keyring.encryptor(transaction).await?;
            row.secret_encrypted = Set(encryptor.encrypt(secret.expose(), &codes::secret_context(user.id))?);
            row.insert(transaction).await?;
            Ok::<_, Error>(())
        })
        .await?;
    Ok(TwoFactorSetup {
        secret: secret.expose().to_owned().into(),
        uri: uri.into(),
    })
}

/// Returns the name under which apps list the account: the host of the server.
fn issuer(backend: &Backend) -> String {
    let url = Url::parse(&backend.instance.base_url).ok();
    let host = url.as_ref().and_then(Url::host_str);
    host.unwrap_or("Holdfast").to_owned()
}

/// Returns the current row of a user if the password is correct.
async fn verified(
    backend: &Backend,
    actor: &Actor,
    user: &users::Model,
    password: String,
) -> Result<users::Model> {
    if user.password_hash.is_none() {
        return Err(Error::attribute(
            "current_password",
            "can't be checked, because the user has no password",
        ));
    }
    let source = AttemptSource::of_current_password(backend, user.id).await?;
    let permit = password_attempts::acquire_permit().await?;
    let attempt = password_attempts::record_attempt(backend, &source).await?;
    let known = Some(user.clone());
    let (found, permit) = password_attempts::verify(backend, permit, password, known).await?;
    let Some(user) = found else {
        let event = AuditEvent::of(AuditKind::CurrentPasswordFailed, AuditEntity::user(user));
        audit::record_attempt(backend, actor, event).await?;
        return Err(wrong_password());
    };
    password_attempts::reset(backend, attempt).await?;
    drop(permit);
    Ok(user)
}

/// Enables the second factor of a user whose app shows the right code, and returns the recovery codes. The code
/// cannot be used again to sign in. All sessions end except `session`, a cookie.
///
/// # Errors
/// Returns a validation error if the code is wrong, `Rejected` if no setup is in progress, `Conflict` if the user
/// has a second factor, and [`Error::RateLimited`] after too many wrong codes.
pub async fn confirm(
    backend: &Backend,
    actor: &Actor,
    user: &users::Model,
    code: &str,
    session: Option<&str>,
) -> Result<Vec<Secret<String>>> {
    check_not_enabled(user)?;
    let source = AttemptSource::of_second_factor_change(backend, user.id).await?;
    let attempt = password_attempts::record_attempt(backend, &source).await?;
    let enabled = backend
        .database
        .transaction(async |transaction| {
            let codes = enable(backend, transaction, user.id, code, session).await?;
            let event = AuditEvent::of(AuditKind::TwoFactorEnabled, AuditEntity::user(user));
            audit::record(transaction, actor, event).await?;
            Ok(codes)
        })
        .await;
    let enabled = with_recorded_failure(backend, actor, user, enabled).await?;
    password_attempts::reset(backend, attempt).await?;
    Ok(enabled)
}

async fn enable(
    backend: &Backend,
    transaction: &DatabaseTransaction,
    user_id: i64,
    code: &str,
    session: Option<&str>,
) -> Result<Vec<Secret<String>>> {
    let instant = now();
    let current = lock(transaction, user_id).await?;
    check_not_enabled(&current)?;
    let found = two_factor_secrets::of_user(transaction, user_id).await?;
    let Some(row) = found.filter(|row| row.created_at + SETUP_LIFETIME > instant) else {
        return Err(Error::Rejected(
            "No setup of two-factor authentication is in progress. Start the setup first".into(),
        ));
    };
    let secret = codes::decrypted(&backend.keyring, &row)?;
    let Some(step) = secret.step_of(&codes::normalized(code), instant)? else {
        return Err(wrong_code());
    };
    let change = two_factor_secrets::ActiveModel {
        id: Set(row.id),
        last_used_step: Set(Some(step)),
        enabled_at: Set(Some(instant)),
        ..Default::default()
    };
    change.update(transaction).await?;
    set_enabled(transaction, user_id, true, instant).await?;
    sessions::delete_others(transaction, user_id, session).await?;
    codes::replace_recovery_codes(transaction, user_id).await
}

/// Replaces the recovery codes of a user who proves the second factor.
///
/// # Errors
/// Returns a validation error if the code is wrong, `Rejected` without a second factor, and
/// [`Error::RateLimited`] after too many wrong codes.
pub async fn replace_recovery_codes(
    backend: &Backend,
    actor: &Actor,
    user: &users::Model,
    code: &str,
) -> Result<Vec<Secret<String>>> {
    with_code(backend, actor, user, code, async |transaction| {
        let event = AuditEvent::of(AuditKind::RecoveryCodesCreated, AuditEntity::user(user));
        audit::record(transaction, actor, event).await?;
        codes::replace_recovery_codes(transaction, user.id).await
    })
    .await
}

/// Removes the second factor of a user who proves it. All sessions end except `session`, a cookie.
///
/// # Errors
/// As [`replace_recovery_codes`].
pub async fn disable(
    backend: &Backend,
    actor: &Actor,
    user: &users::Model,
    code: &str,
    session: Option<&str>,
) -> Result<()> {
    with_code(backend, actor, user, code, async |transaction| {
        let event = AuditEvent::of(AuditKind::TwoFactorDisabled, AuditEntity::user(user));
        audit::record(transaction, actor, event).await?;
        remove(transaction, user.id, session).await
    })
    .await
}

/// Runs a change in the transaction that consumes a code of the user.
async fn with_code<T>(
    backend: &Backend,
    actor: &Actor,
    user: &users::Model,
    code: &str,
    change: impl AsyncFnOnce(&DatabaseTransaction) -> Result<T>,
) -> Result<T> {
    check_enabled(user)?;
    let source = AttemptSource::of_second_factor_change(backend, user.id).await?;
    let attempt = password_attempts::record_attempt(backend, &source).await?;
    let changed = backend
        .database
        .transaction(async |transaction| {
            check_enabled(&lock(transaction, user.id).await?)?;
            match codes::consume(transaction, &backend.keyring, user.id, code, now()).await? {
                true => change(transaction).await,
                false => Err(wrong_code()),
            }
        })
        .await;
    let changed = with_recorded_failure(backend, actor, user, changed).await?;
    password_attempts::reset(backend, attempt).await?;
    Ok(changed)
}

/// Records a wrong code after the transaction was rolled back.
async fn with_recorded_failure<T>(
    backend: &Backend,
    actor: &Actor,
    user: &users::Model,
    outcome: Result<T>,
) -> Result<T> {
    if matches!(outcome, Err(Error::InvalidAttributes(_))) {
        let event = AuditEvent::of(AuditKind::SecondFactorFailed, AuditEntity::user(user));
        audit::record_attempt(backend, actor, event).await?;
    }
    outcome
}

/// Removes the second factor of a user who cannot prove it, for an administrator. All sessions end.
///
/// # Errors
/// Returns `Rejected` without a second factor, and `NotFound` if the user was deleted concurrently.
pub async fn reset(backend: &Backend, actor: &Actor, user_id: i64) -> Result<()> {
    backend
        .database
        .transaction(async |transaction| {
            let user = lock(transaction, user_id).await?;
            check_enabled(&user)?;
            let event = AuditEvent::of(AuditKind::TwoFactorReset, AuditEntity::user(&user));
            audit::record(transaction, actor, event).await?;
            remove(transaction, user_id, None).await
        })
        .await
}

/// Removes the second factor of a row whose secret cannot be decrypted. All sessions of the user end. Returns `false`
/// if the row has another secret.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn discard_secret(backend: &Backend, row_id: i64, secret_encrypted: &str) -> Result<bool> {
    let row = two_factor_secrets::Entity::find_by_id(row_id)
        .filter(two_factor_secrets::Column::SecretEncrypted.eq(secret_encrypted));
    let Some(found) = row.clone().one(backend.database.read()).await? else {
        return Ok(false);
    };
    backend
        .database
        .transaction(async |transaction| {
            let user = lock(transaction, found.user_id).await?;
            if row.one(transaction).await?.is_none() {
                return Ok(false);
            }
            let event = AuditEvent::of(AuditKind::TwoFactorReset, AuditEntity::user(&user));
            audit::record(transaction, Actor::command_line(), event).await?;
            remove(transaction, found.user_id, None).await?;
            Ok(true)
        })
        .await
}

/// Removes the second factor of a user on request of an administrator.
///
/// # Errors
/// As [`reset`]. Returns `Forbidden` for administrators: a stolen token must not weaken the account of its user.
pub async fn reset_by_api(backend: &Backend, actor: &Actor, user: &users::Model) -> Result<()> {
    if user.admin {
        return Err(Error::forbidden_because(
            "Two-factor authentication of administrators cannot be disabled via the API. Use the command `holdfast \
             admin disable-two-factor` on the server",
        ));
    }
    reset(backend, actor, user.id).await
}

/// Removes the second factor of a locked user.
async fn remove(transaction: &DatabaseTransaction, user_id: i64, session: Option<&str>) -> Result<()> {
    delete_secret(transaction, user_id).await?;
    codes::delete_recovery_codes(transaction, user_id).await?;
    set_enabled(transaction, user_id, false, now()).await?;
    sessions::delete_others(transaction, user_id, session).await
}

async fn delete_secret(transaction: &DatabaseTransaction, user_id: i64) -> Result<()> {
    two_factor_secrets::Entity::delete_many()
        .filter(two_factor_secrets::Column::UserId.eq(user_id))
        .exec(transaction)
        .await?;
    Ok(())
}

async fn set_enabled(
    transaction: &DatabaseTransaction,
    user_id: i64,
    enabled: bool,
    instant: DateTime<Utc>,
) -> Result<()> {
    let change = users::ActiveModel {
        id: Set(user_id),
        two_factor_enabled: Set(enabled),
        updated_at: Set(instant),
        ..Default::default()
    };
    change.update(transaction).await?;
    Ok(())
}

async fn lock(transaction: &DatabaseTransaction, user_id: i64) -> Result<users::Model> {
    let found = users::lock(transaction, user_id).await?;
    found.ok_or_else(|| Error::not_found("User"))
}

fn check_enabled(user: &users::Model) -> Result<()> {
    match user.two_factor_enabled {
        true => Ok(()),
        false => Err(Error::Rejected(
            "Two-factor authentication is not enabled for this user".into(),
        )),
    }
}

fn check_not_enabled(user: &users::Model) -> Result<()> {
    match user.two_factor_enabled {
        false => Ok(()),
        true => Err(Error::Conflict(
            "Two-factor authentication is already enabled for this user".into(),
        )),
    }
}

fn wrong_password() -> Error {
    Error::attribute("current_password", "is wrong")
}

fn wrong_code() -> Error {
    Error::attribute("code", WRONG_CODE)
}
