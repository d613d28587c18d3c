//! Browser sessions: started with a password and a second factor, identified by a cookie that is stored only as a
//! digest.

use std::net::IpAddr;

use chrono::{DateTime, TimeDelta, Utc};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, Condition, DatabaseTransaction, EntityTrait, ExprTrait,
    QueryFilter,
};
use storage::entities::users::UserState;
use storage::entities::{now, sessions, users};

use crate::audit::{self, Actor, AuditEntity, AuditEvent, AuditKind};
use crate::identity::authentication::{self, csrf_token};
use crate::identity::password_attempts::{AttemptSource, CredentialContext};
use crate::identity::two_factor::requirement::{self, GracePeriod, TwoFactorRequirement};
use crate::identity::two_factor::{codes, pending_sign_ins};
use crate::identity::{attempt_events, known_addresses, oauth, password_attempts, passwords};
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::secrets::{self, Secret, Token};

/// Lifetime of a session.
pub const LIFETIME: TimeDelta = TimeDelta::days(14);
/// Time in which a pending sign-in must be confirmed with a second factor.
pub const PENDING_LIFETIME: TimeDelta = pending_sign_ins::LIFETIME;

/// A sign-in attempt.
#[derive(Debug, Clone, Default)]
pub struct SignInAttempt {
    /// A user name or an email address.
    pub login: String,
    /// The password.
    pub password: String,
    /// The new password, if it must be changed.
    pub new_password: Option<String>,
    /// The client address, as text, under which failures are counted.
    pub address: Option<String>,
    /// The client address for audit events.
    pub ip_address: Option<IpAddr>,
    /// The current session of the browser, which is ended.
    pub replaces: Option<String>,
}

/// A second factor for a sign-in attempt whose password was verified.
#[derive(Debug, Clone, Default)]
pub struct SecondFactorAttempt {
    /// The secret of the pending sign-in.
    pub pending: String,
    /// A code of the authenticator app or a recovery code.
    pub code: String,
    /// The client address, as text, under which failures are counted.
    pub address: Option<String>,
    /// The client address for audit events.
    pub ip_address: Option<IpAddr>,
    /// The current session of the browser, which is ended.
    pub replaces: Option<String>,
}

/// Result of an attempt.
#[derive(Debug)]
pub enum SignInOutcome {
    /// A session was started.
    SignedIn(StartedSession),
    /// The login, the password or the code is wrong; the response does not distinguish login and password.
    Wrong,
    /// The password is correct, but must be changed.
    PasswordChangeRequired,
    /// The password is correct, and a second factor is required. Contains the secret of the pending sign-in.
    SecondFactorRequired(Secret<String>),
    /// The pending sign-in does not exist any more.
    Expired,
}

/// A session that was started.
#[derive(Debug)]
pub struct StartedSession {
    /// The secret, which is returned only here.
    pub secret: Secret<String>,
    /// Whether the user has to set up a second factor.
    pub requirement: TwoFactorRequirement,
}

/// Starts a session if login and password are correct, or a pending sign-in for users with a second factor. An
/// unknown account takes the same time.
///
/// # Errors
/// Returns [`Error::RateLimited`] after too many failures of the account or the address, and after too many sign-ins
/// of the user. Returns `Forbidden` for disabled accounts, and a validation error for an invalid or unchanged new password.
pub async fn sign_in(backend: &Backend, attempt: SignInAttempt) -> Result<SignInOutcome> {
    let db = backend.database.read();
    let found = match attempt.login.contains('@') {
        true => users::by_email(db, &attempt.login).await?,
        false => users::by_username(db, &attempt.login).await?,
    };
    let address = attempt.address.as_deref();
    let named = found.clone();
    let failed = AuditKind::SignInFailed;
    let client = Actor::unauthenticated(attempt.ip_address);
    let context = CredentialContext::SignIn;
    let source = AttemptSource::of_login(backend, context, &attempt.login, found.as_ref(), address).await?;
    password_attempts::check_limits(backend, &source).await?;
    let permit = password_attempts::acquire_permit().await?;
    // Counted before the password is verified, so that parallel attempts gain no advantage.
    let failure_id = password_attempts::record_attempt(backend, &source).await?;
    let password = attempt.password.clone();
    let (verified, permit) = password_attempts::verify(backend, permit, password, found).await?;
    let Some(user) = verified else {
        attempt_events::record_failure(backend, client, failed, named.as_ref()).await?;
        return Ok(SignInOutcome::Wrong);
    };
    password_attempts::reset(backend, failure_id).await?;
    // Counted for each outcome, because each outcome stores rows.
    let sign_in = AttemptSource::of_sign_in(backend, user.id).await?;
    password_attempts::record_attempt(backend, &sign_in).await?;
    drop(permit);
    if let Err(refusal) = check_may_sign_in(&user) {
        let refused = AuditEvent::of(AuditKind::SignInRefused, AuditEntity::user(&user));
        audit::record_attempt(backend, client, refused.to(user.state.name())).await?;
        return Err(refusal);
    }
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
        ip_address: attempt.ip_address,
        replaces: attempt.replaces,
    };
    let outcome = start(backend, &user, new).await?;
    if matches!(outcome, SignInOutcome::Wrong) {
        attempt_events::record_failure(backend, client, failed, named.as_ref()).await?;
    }
    Ok(outcome)
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
    /// The client address, as text, under which failures are counted.
    pub address: Option<String>,
    /// The client address for audit events.
    pub ip_address: Option<IpAddr>,
    /// The current session of the browser, which is ended.
    pub replaces: Option<String>,
}

/// Starts a session with a new ID for a user whose password was verified, or a pending sign-in if the user has a
/// second factor. Ends the previous session and expired ones.
///
/// Verifying a password takes long enough for an administrator to block or delete the user or to replace the
/// password. So the transaction locks the user and checks that the row still is as it was verified. If it is
/// not, no session is started, and the outcome is that of the current row.
///
/// # Errors
/// Returns `Forbidden` if the account was disabled in the meantime.
pub async fn start(backend: &Backend, verified: &users::Model, new: NewSession) -> Result<SignInOutcome> {
    let period = requirement::grace_period(backend, verified.id).await?;
    backend
        .database
        .transaction(async |transaction| {
            let found = users::lock(transaction, verified.id).await?;
            let Some(user) = found.filter(|user| user.password_hash == verified.password_hash) else {
                return Ok(SignInOutcome::Wrong);
            };
            check_may_sign_in(&user)?;
            match (user.password_change_required, verified.password_change_required) {
                (true, false) => return Ok(SignInOutcome::PasswordChangeRequired),
                // The row was changed twice and is as it was.
                (false, true) => return Err(Error::Contention),
                (true, true) | (false, false) => {}
            }
            if user.two_factor_enabled {
                let hash = new.new_password_hash;
                let pending = pending_sign_ins::insert(transaction, user.id, hash, now()).await?;
                let event = AuditEvent::of(AuditKind::SecondFactorRequired, AuditEntity::user(&user));
                audit::record(transaction, Actor::unauthenticated(new.ip_address), event).await?;
                return Ok(SignInOutcome::SecondFactorRequired(
                    pending.expose().to_owned().into(),
                ));
            }
            let started = insert(backend, transaction, &user, period, new).await?;
            Ok::<_, Error>(SignInOutcome::SignedIn(started))
        })
        .await
}

/// Returns whether a sign-in waits for a second factor.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn is_pending(backend: &Backend, secret: &str) -> Result<bool> {
    let found = pending_sign_ins::find(backend.database.read(), secret, now()).await?;
    Ok(found.is_some())
}

/// Starts the session of a pending sign-in if the code is correct. A new password takes effect only now: without
/// the second factor, the former one must not be replaced.
///
/// # Errors
/// Returns [`Error::RateLimited`] after too many wrong codes of the user or from the address. Correct passwords do
/// not delete these failures. Returns `Forbidden` if the account was disabled in the meantime.
pub async fn confirm(backend: &Backend, attempt: SecondFactorAttempt) -> Result<SignInOutcome> {
    let found = pending_sign_ins::find(backend.database.read(), &attempt.pending, now()).await?;
    let Some(pending) = found else {
        return Ok(SignInOutcome::Expired);
    };
    let user_id = pending.user_id;
    let source = AttemptSource::of_second_factor(backend, user_id, attempt.address.as_deref()).await?;
    let failure_id = password_attempts::record_attempt(backend, &source).await?;
    let period = requirement::grace_period(backend, user_id).await?;
    let outcome = backend
        .database
        .transaction(async |transaction| {
            let user = users::lock(transaction, user_id).await?;
            let pending = pending_sign_ins::find(transaction, &attempt.pending, now()).await?;
            let (Some(user), Some(pending)) = (user, pending) else {
                return Ok(SignInOutcome::Expired);
            };
            check_may_sign_in(&user)?;
            let keyring = &backend.keyring;
            if !codes::consume(transaction, keyring, user_id, &attempt.code, now()).await? {
                let wrong = AuditEvent::of(AuditKind::SecondFactorFailed, AuditEntity::user(&user));
                audit::record(transaction, Actor::unauthenticated(attempt.ip_address), wrong).await?;
                return Ok(SignInOutcome::Wrong);
            }
            pending_sign_ins::delete(transaction, &pending).await?;
            let new = NewSession {
                new_password_hash: pending.new_password_hash,
                address: attempt.address,
                ip_address: attempt.ip_address,
                replaces: attempt.replaces,
            };
            let started = insert(backend, transaction, &user, period, new).await?;
            Ok::<_, Error>(SignInOutcome::SignedIn(started))
        })
        .await?;
    if !matches!(outcome, SignInOutcome::Wrong) {
        password_attempts::reset(backend, failure_id).await?;
    }
    Ok(outcome)
}

/// Inserts the session of a user who is locked, and records the sign-in.
async fn insert(
    backend: &Backend,
    transaction: &DatabaseTransaction,
    user: &users::Model,
    period: GracePeriod,
    new: NewSession,
) -> Result<StartedSession> {
    let (secret, instant) = (Token::generate(""), now());
    let has_new_password = new.new_password_hash.is_some();
    let actor = Actor::user(user, new.ip_address);
    let (grace_start, requirement) = period.apply(user, instant);
    record_sign_in(transaction, user, new.new_password_hash, grace_start, instant).await?;
    if has_new_password {
        revoke_former_password(transaction, &actor, user).await?;
    }
    if let Some(address) = &new.address {
        known_addresses::record(transaction, &backend.keyring, user.id, address, instant).await?;
    }
    let mut ended = sessions::Column::ExpiresAt.lte(instant);
    if let Some(before) = &new.replaces {
        ended = ended.or(sessions::Column::Digest.eq(secrets::digest(before)));
    }
    sessions::Entity::delete_many()
        .filter(ended)
        .exec(transaction)
        .await?;
    let row = sessions::ActiveModel {
        digest: Set(secret.digest()),
        user_id: Set(user.id),
        csrf_seed: Set(Token::generate("").expose().to_owned()),
        created_at: Set(instant),
        expires_at: Set(instant + LIFETIME),
        last_seen_at: Set(instant),
        ..Default::default()
    };
    row.insert(transaction).await?;
    let events = sign_in_events(user, has_new_password);
    audit::record_all(transaction, actor, events).await?;
    Ok(StartedSession {
        secret: secret.expose().to_owned().into(),
        requirement,
    })
}

/// Returns the events of a sign-in of a user, given as before the sign-in.
fn sign_in_events(user: &users::Model, has_new_password: bool) -> Vec<AuditEvent> {
    let of = |kind| AuditEvent::of(kind, AuditEntity::user(user));
    let signed_in = of(AuditKind::UserSignedIn);
    let mut events = vec![match user.two_factor_enabled {
        true => signed_in.attribute("signed_in_with_second_factor"),
        false => signed_in,
    }];
    if user.state == UserState::Deactivated {
        events.push(
            of(AuditKind::UserActivated)
                .from(UserState::Deactivated.name())
                .to(UserState::Active.name()),
        );
    }
    if has_new_password {
        events.push(of(AuditKind::UserPasswordChanged));
    }
    events
}

/// Records a sign-in in the row of a user who is locked.
async fn record_sign_in(
    transaction: &DatabaseTransaction,
    user: &users::Model,
    new_password_hash: Option<String>,
    grace_start: Option<DateTime<Utc>>,
    instant: DateTime<Utc>,
) -> Result<()> {
    let mut change = users::ActiveModel {
        id: Set(user.id),
        state: Set(UserState::Active),
        last_sign_in_at: Set(user.current_sign_in_at),
        current_sign_in_at: Set(Some(instant)),
        last_activity_on: Set(Some(instant.date_naive())),
        two_factor_grace_started_at: Set(grace_start),
        ..Default::default()
    };
    if new_password_hash.is_some() {
        change.password_hash = Set(new_password_hash);
        change.password_change_required = Set(false);
        change.updated_at = Set(instant);
    }
    change.update(transaction).await?;
    Ok(())
}

/// Ends the sessions of a user, revokes the OAuth tokens, and deletes the addresses that are known for the former
/// password. Belongs into the transaction that replaces the password, after the change of the user's row.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn revoke_former_password(
    transaction: &DatabaseTransaction,
    actor: &Actor,
    user: &users::Model,
) -> Result<()> {
    delete_all(transaction, user.id).await?;
    // Anyone who knew the former password could have authorized an application.
    oauth::revocation::revoke_all(transaction, actor, user).await?;
    known_addresses::delete_all(transaction, user.id).await
}

/// Ends the sessions and pending sign-ins of a user. Belongs into a transaction, after a change of the user's
/// row: a sign-in locks that row before it inserts a session, so that either this deletes the session, or the
/// sign-in is refused.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn delete_all(transaction: &DatabaseTransaction, user_id: i64) -> Result<()> {
    delete_others(transaction, user_id, None).await
}

/// Ends the sessions and pending sign-ins of a user except one session, given by its cookie. The rest is as in
/// [`delete_all`].
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn delete_others(
    transaction: &DatabaseTransaction,
    user_id: i64,
    remaining: Option<&str>,
) -> Result<()> {
    pending_sign_ins::delete_all(transaction, user_id).await?;
    let remaining = remaining.map(|secret| sessions::Column::Digest.ne(secrets::digest(secret)));
    let others = Condition::all()
        .add(sessions::Column::UserId.eq(user_id))
        .add_option(remaining);
    sessions::Entity::delete_many()
        .filter(others)
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
/// Returns `Forbidden` for disabled accounts, and for users who had to set up a second factor.
pub async fn find(backend: &Backend, secret: &str) -> Result<Option<ActiveSession>> {
    let found = find_limited(backend, secret).await?;
    if let Some(session) = &found {
        requirement::check_session_suffices(backend, &session.user).await?;
    }
    Ok(found)
}

/// Returns the session of a cookie, for setting up a second factor and for signing out. Unlike [`find`], returns
/// sessions of users who had to set up a second factor.
///
/// # Errors
/// Returns `Forbidden` for disabled accounts.
pub async fn find_limited(backend: &Backend, secret: &str) -> Result<Option<ActiveSession>> {
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

/// Ends a session, for a user who signs out.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn delete(
    backend: &Backend,
    secret: &str,
    user: &users::Model,
    ip_address: Option<IpAddr>,
) -> Result<()> {
    backend
        .database
        .transaction(async |transaction| {
            let ended = sessions::Entity::delete_many()
                .filter(sessions::Column::Digest.eq(secrets::digest(secret)))
                .exec(transaction)
                .await?;
            if ended.rows_affected == 0 {
                return Ok(());
            }
            let event = AuditEvent::of(AuditKind::UserSignedOut, AuditEntity::user(user));
            audit::record(transaction, Actor::user(user, ip_address), event).await
        })
        .await
}
