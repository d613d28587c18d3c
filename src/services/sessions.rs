//! Sign-in sessions of browsers: begun with a password, found by a cookie of which only the digest is kept.

use chrono::TimeDelta;
use sea_orm::sea_query::ExprTrait;
use sea_orm::{ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, IntoActiveModel, QueryFilter};
use storage::entities::users::State;
use storage::entities::{now, sessions, users};

use crate::error::{Error, Result};
use crate::secrets::{self, Token};
use crate::services::authentication::{self, csrf_token};
use crate::services::{Backend, attempts, users as accounts};

/// How long a session lasts.
pub const LIFETIME: TimeDelta = TimeDelta::days(14);

/// What somebody types to sign in, and where from.
#[derive(Debug, Clone, Default)]
pub struct Attempt {
    /// A user name or an address for mail.
    pub login: String,
    /// The password.
    pub password: String,
    /// The password to have from now on, where it must be changed.
    pub new_password: Option<String>,
    /// The network address, as text.
    pub address: Option<String>,
    /// The session that the browser has so far; it ends.
    pub replaces: Option<String>,
}

/// How an attempt went.
#[derive(Debug)]
pub enum Outcome {
    /// A session has begun; its secret is given out here and never again.
    SignedIn(String),
    /// The login or the password is wrong; it is not told which.
    Wrong,
    /// The password is right, but must be changed.
    PasswordChangeRequired,
}

/// Begins a session when login and password fit. Takes as long for accounts that do not exist.
///
/// # Errors
/// [`Error::RateLimited`] after too many failures of the account or the address, 403 for accounts that are shut
/// out, 400 for a new password that is none or the old one.
pub async fn sign_in(backend: &Backend, attempt: Attempt) -> Result<Outcome> {
    let sources = attempts::sources(&attempt.login, "address", attempt.address.as_deref());
    // Noted before the password is looked at, so that many attempts at a time gain nothing.
    let noted = attempts::note(backend, &sources).await?;
    let db = backend.database.read();
    let found = match attempt.login.contains('@') {
        true => users::by_email(db, &attempt.login).await?,
        false => users::by_username(db, &attempt.login).await?,
    };
    let hash = found.as_ref().and_then(|user| user.password_hash.clone());
    let permit = attempts::turn().await?;
    let fits = attempts::fits(attempt.password.clone(), hash).await?;
    drop(permit);
    let Some(user) = found.filter(|user| fits && !user.bot) else {
        return Ok(Outcome::Wrong);
    };
    attempts::forget(backend, noted).await?;
    if user.state != State::Deactivated {
        authentication::refuse_shut_out(&user)?;
    }
    let user = match (user.password_change_required, attempt.new_password) {
        (false, _) => user,
        (true, None) => return Ok(Outcome::PasswordChangeRequired),
        (true, Some(new)) if new == attempt.password => {
            return Err(Error::attribute(
                "password",
                "must differ from the current password",
            ));
        }
        (true, Some(new)) => accounts::set_password(backend, user, new).await?,
    };
    begin(backend, user, attempt.replaces)
        .await
        .map(Outcome::SignedIn)
}

/// Begins a session with an id of its own; the one before it ends, as do those whose time is over.
async fn begin(backend: &Backend, user: users::Model, replaces: Option<String>) -> Result<String> {
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
    signed_in.state = Set(State::Active);
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

/// Who is signed in by a cookie, and the token against cross-site requests that goes with it.
#[derive(Debug)]
pub struct SignedIn {
    /// The user.
    pub user: users::Model,
    /// The token that writes must carry.
    pub csrf_token: String,
}

/// The session of a cookie; `None` when it has ended or never was one.
///
/// # Errors
/// 403 for accounts that are shut out.
pub async fn find(backend: &Backend, secret: &str) -> Result<Option<SignedIn>> {
    let found = sessions::by_digest(backend.database.read(), &secrets::digest(secret), now()).await?;
    let Some((session, user)) = found else {
        return Ok(None);
    };
    authentication::refuse_shut_out(&user)?;
    Ok(Some(SignedIn {
        csrf_token: csrf_token(&session),
        user,
    }))
}

/// Ends a session.
///
/// # Errors
/// Whatever the database reports.
pub async fn end(backend: &Backend, secret: &str) -> Result<()> {
    sessions::Entity::delete_many()
        .filter(sessions::Column::Digest.eq(secrets::digest(secret)))
        .exec(backend.database.write())
        .await?;
    Ok(())
}
