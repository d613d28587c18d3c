//! Tokens of applications: given for codes, replaced by refreshing, taken back, looked at.
//!
//! A refresh token works once: what replaces it ends it together with its access token. A code or refresh token that
//! is used again has been stolen, or its thief was faster, so all tokens of its family end.

use chrono::{DateTime, TimeDelta, Utc};
use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, Condition, DatabaseTransaction, EntityTrait, QueryFilter,
};
use storage::entities::users::{self, State};
use storage::entities::{now, oauth_grants, oauth_tokens};

use super::applications::Application;
use super::{Fault, narrowed, pkce};
use crate::error::{Error, Result, TokenFault};
use crate::secrets::{self, Token};
use crate::services::Backend;

/// How long an access token is good for.
const LIFETIME: TimeDelta = TimeDelta::hours(2);
/// How long tokens that were taken back are kept, to tell when they are used again.
const KEPT: TimeDelta = TimeDelta::days(30);
/// What secret scanners know access tokens by.
const PREFIX: &str = "hfoat-";
/// What secret scanners know refresh tokens by.
const REFRESH_PREFIX: &str = "hfort-";

/// What an application gets.
#[derive(Debug)]
pub struct Issued {
    /// The access token.
    pub access_token: String,
    /// What the next access token is to be had for.
    pub refresh_token: String,
    /// Seconds until the access token ends.
    pub expires_in: i64,
    /// The scopes, separated by spaces.
    pub scope: String,
    /// When it was made.
    pub created_at: DateTime<Utc>,
}

/// Whose tokens are made, and how far they reach.
struct Basis {
    application_id: i64,
    user_id: i64,
    family: String,
    scopes: String,
}

/// Exchanges a code.
///
/// # Errors
/// [`Fault::InvalidGrant`]; when the code was used before, all that came of it ends.
pub async fn exchange(
    backend: &Backend,
    application: &Application,
    code: &str,
    redirect_uri: Option<&str>,
    verifier: Option<&str>,
) -> Result<Issued, Fault> {
    let sent = Sent {
        digest: secrets::digest(code),
        redirect_uri,
        verifier,
    };
    backend
        .database
        .transaction(async |transaction| exchange_within(transaction, application, sent).await)
        .await
        .map_err(Fault::Internal)?
}

/// A code and what must fit it.
struct Sent<'a> {
    digest: String,
    redirect_uri: Option<&'a str>,
    verifier: Option<&'a str>,
}

/// A refusal is no error here: what it revokes stays revoked.
async fn exchange_within(
    transaction: &DatabaseTransaction,
    application: &Application,
    sent: Sent<'_>,
) -> Result<std::result::Result<Issued, Fault>> {
    let found = oauth_grants::Entity::find()
        .filter(oauth_grants::Column::Digest.eq(sent.digest))
        .filter(oauth_grants::Column::ApplicationId.eq(application.id))
        .one(transaction)
        .await?;
    let Some(grant) = found else {
        return Ok(Err(Fault::InvalidGrant));
    };
    let instant = now();
    if grant.used_at.is_some() {
        oauth_tokens::revoke_family(transaction, &grant.family, instant).await?;
        return Ok(Err(Fault::InvalidGrant));
    }
    let challenge = grant
        .code_challenge
        .as_deref()
        .zip(grant.code_challenge_method.as_deref());
    let fits = grant.expires_at > instant
        && sent.redirect_uri == Some(grant.redirect_uri.as_str())
        && pkce::answers(challenge, sent.verifier);
    if !fits {
        return Ok(Err(Fault::InvalidGrant));
    }
    let used = oauth_grants::Entity::update_many()
        .col_expr(oauth_grants::Column::UsedAt, Expr::value(instant))
        .filter(oauth_grants::Column::Id.eq(grant.id))
        .filter(oauth_grants::Column::UsedAt.is_null())
        .exec(transaction)
        .await?;
    if used.rows_affected == 0 {
        // Somebody else was faster, and one of the two has no right to it.
        oauth_tokens::revoke_family(transaction, &grant.family, instant).await?;
        return Ok(Err(Fault::InvalidGrant));
    }
    let basis = Basis {
        application_id: application.id,
        user_id: grant.user_id,
        family: grant.family,
        scopes: grant.scopes,
    };
    issue(transaction, basis).await
}

/// Replaces a refresh token, and the access token it came with.
///
/// # Errors
/// [`Fault::InvalidGrant`]; when it was replaced or taken back before, the whole family ends.
/// [`Fault::InvalidScope`] for scopes beyond those it has.
pub async fn refresh(
    backend: &Backend,
    application: &Application,
    token: &str,
    scope: Option<&str>,
) -> Result<Issued, Fault> {
    let digest = secrets::digest(token);
    backend
        .database
        .transaction(async |transaction| refresh_within(transaction, application, digest, scope).await)
        .await
        .map_err(Fault::Internal)?
}

async fn refresh_within(
    transaction: &DatabaseTransaction,
    application: &Application,
    digest: String,
    scope: Option<&str>,
) -> Result<std::result::Result<Issued, Fault>> {
    let found = oauth_tokens::Entity::find()
        .filter(oauth_tokens::Column::RefreshDigest.eq(digest))
        .filter(oauth_tokens::Column::ApplicationId.eq(application.id))
        .one(transaction)
        .await?;
    let Some(token) = found else {
        return Ok(Err(Fault::InvalidGrant));
    };
    let instant = now();
    let scopes = match narrowed(scope, token.scopes()) {
        Ok(scopes) => scopes,
        Err(fault) => return Ok(Err(fault)),
    };
    let replaced = oauth_tokens::Entity::update_many()
        .col_expr(oauth_tokens::Column::RevokedAt, Expr::value(instant))
        .filter(oauth_tokens::Column::Id.eq(token.id))
        .filter(oauth_tokens::Column::RevokedAt.is_null())
        .exec(transaction)
        .await?;
    if replaced.rows_affected == 0 {
        oauth_tokens::revoke_family(transaction, &token.family, instant).await?;
        return Ok(Err(Fault::InvalidGrant));
    }
    let basis = Basis {
        application_id: application.id,
        user_id: token.user_id,
        family: token.family,
        scopes,
    };
    issue(transaction, basis).await
}

async fn issue(
    transaction: &DatabaseTransaction,
    basis: Basis,
) -> Result<std::result::Result<Issued, Fault>> {
    let user = users::live()
        .filter(users::Column::Id.eq(basis.user_id))
        .filter(users::Column::State.eq(State::Active))
        .one(transaction)
        .await?;
    if user.is_none() {
        return Ok(Err(Fault::InvalidGrant));
    }
    let (access, refresh, instant) = (Token::generate(PREFIX), Token::generate(REFRESH_PREFIX), now());
    oauth_tokens::Entity::delete_many()
        .filter(oauth_tokens::Column::RevokedAt.lt(instant - KEPT))
        .exec(transaction)
        .await?;
    let row = oauth_tokens::ActiveModel {
        application_id: Set(basis.application_id),
        user_id: Set(basis.user_id),
        family: Set(basis.family),
        digest: Set(access.digest()),
        refresh_digest: Set(refresh.digest()),
        scopes: Set(basis.scopes),
        created_at: Set(instant),
        expires_at: Set(instant + LIFETIME),
        ..Default::default()
    };
    let row = row.insert(transaction).await?;
    Ok(Ok(Issued {
        access_token: access.expose().to_owned(),
        refresh_token: refresh.expose().to_owned(),
        expires_in: LIFETIME.num_seconds(),
        scope: row.scopes,
        created_at: row.created_at,
    }))
}

/// Takes an access or refresh token of an application back, and the other one with it. What is none changes nothing
/// (RFC 7009).
///
/// # Errors
/// Whatever the database reports.
pub async fn revoke(backend: &Backend, application: &Application, token: &str) -> Result<()> {
    let digest = secrets::digest(token);
    oauth_tokens::Entity::update_many()
        .col_expr(oauth_tokens::Column::RevokedAt, Expr::value(now()))
        .filter(oauth_tokens::Column::ApplicationId.eq(application.id))
        .filter(oauth_tokens::Column::RevokedAt.is_null())
        .filter(
            Condition::any()
                .add(oauth_tokens::Column::Digest.eq(digest.as_str()))
                .add(oauth_tokens::Column::RefreshDigest.eq(digest.as_str())),
        )
        .exec(backend.database.write())
        .await?;
    Ok(())
}

/// An access token and the user it acts as.
///
/// # Errors
/// 401 when it is unknown, taken back or expired.
pub async fn find(backend: &Backend, token: &str) -> Result<(oauth_tokens::Model, users::Model)> {
    let found = oauth_tokens::by_digest(backend.database.read(), &secrets::digest(token)).await?;
    still_good(found)
}

/// The same by its id.
///
/// # Errors
/// 401 when it is unknown, revoked or expired.
pub async fn find_by_id(backend: &Backend, id: i64) -> Result<(oauth_tokens::Model, users::Model)> {
    still_good(oauth_tokens::by_id(backend.database.read(), id).await?)
}

fn still_good(
    found: Option<(oauth_tokens::Model, users::Model)>,
) -> Result<(oauth_tokens::Model, users::Model)> {
    let (token, user) = found.ok_or(Error::Unauthorized)?;
    if token.revoked_at.is_some() {
        return Err(Error::InvalidToken(TokenFault::Revoked));
    }
    if token.expires_at <= now() {
        return Err(Error::InvalidToken(TokenFault::Expired));
    }
    Ok((token, user))
}

/// Seconds until an access token ends.
#[must_use]
pub fn seconds_left(token: &oauth_tokens::Model) -> i64 {
    (token.expires_at - now()).num_seconds().max(0)
}
