//! Browser sessions: started with a password, identified by a cookie that is stored only as a digest.

use chrono::TimeDelta;
use sea_orm::sea_query::ExprTrait;
use sea_orm::{ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, IntoActiveModel, QueryFilter};
use storage::entities::users::UserState;
use storage::entities::{now, sessions, users};

use crate::identity::authentication::{self, csrf_token};
use crate::identity::{password_attempts, passwords};
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
    let sources = password_attempts::failure_keys(&attempt.login, "address", attempt.address.as_deref());
    // Counted before the password is verified, so that parallel attempts gain no advantage.
    let failure_ids = password_attempts::record_attempt(backend, &sources).await?;
    let db = backend.database.read();
    let found = match attempt.login.contains('@') {
        true => users::by_email(db, &attempt.login).await?,
        false => users::by_username(db, &attempt.login).await?,
    };
    let hash = found.as_ref().and_then(|user| user.password_hash.clone());
    let permit = password_attempts::acquire_permit().await?;
    let fits = password_attempts::verify(attempt.password.clone(), hash).await?;
    drop(permit);
    let Some(user) = found.filter(|user| fits && !user.bot) else {
        return Ok(SignInOutcome::Wrong);
    };
    password_attempts::reset(backend, failure_ids).await?;
    if user.state != UserState::Deactivated {
        authentication::check_account_active(&user)?;
    }
    let user = match (user.password_change_required, attempt.new_password) {
        (false, _) => user,
        (true, None) => return Ok(SignInOutcome::PasswordChangeRequired),
        (true, Some(new)) if new == attempt.password => {
            return Err(Error::attribute(
                "password",
                "must differ from the current password",
            ));
        }
        (true, Some(new)) => passwords::set_password(backend, user, new).await?,
    };
    create(backend, user, attempt.replaces)
        .await
        .map(SignInOutcome::SignedIn)
}

/// Starts a session with a new ID. Ends the previous one and expired ones.
async fn create(backend: &Backend, user: users::Model, replaces: Option<String>) -> Result<String> {
    let (secret, instant) = (Token::generate(""), now());
    let row = sessions::ActiveModel {
        digest: Set(secret.digest()),
        user_id: Set(user.id),
        csrf_seed: Set(Token::generate("").expose().to_owned()),
        created_at: Set(instant),
        expires_at: Set(instant + LIFETIME),
        last_seen_at: Set(instant),
        ..Default::default()
    };
    let mut signed_in = user.clone().into_active_model();
    signed_in.last_sign_in_at = Set(user.current_sign_in_at);
    signed_in.current_sign_in_at = Set(Some(instant));
    signed_in.last_activity_on = Set(Some(instant.date_naive()));
    signed_in.state = Set(UserState::Active);
    backend
        .database
        .transaction(async |transaction| {
            let mut ended = sessions::Column::ExpiresAt.lte(instant);
            if let Some(before) = &replaces {
                ended = ended.or(sessions::Column::Digest.eq(secrets::digest(before)));
            }
            sessions::Entity::delete_many()
                .filter(ended)
                .exec(transaction)
                .await?;
            signed_in.update(transaction).await?;
            row.insert(transaction).await?;
            Ok::<_, Error>(())
        })
        .await?;
    Ok(secret.expose().to_owned())
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
