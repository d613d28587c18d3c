//! OAuth tokens: issued for codes, refreshed, revoked and looked up.
//!
//! A refresh token works once: its successor revokes it together with its access token. Reuse of a code or
//! refresh token indicates theft, so it revokes all tokens of its family.

use std::net::IpAddr;

use chrono::{DateTime, TimeDelta, Utc};
use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, Condition, DatabaseTransaction, EntityTrait,
    QueryFilter, QueryOrder, QuerySelect, QueryTrait,
};
use storage::entities::users::{self, UserState};
use storage::entities::{now, oauth_grants, oauth_tokens};

use super::applications::Application;
use super::{OauthError, granted_scopes, pkce};
use crate::audit::{self, Actor, AuditEntity, AuditEvent, AuditKind, AuditTarget};
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result, TokenFault};
use crate::secrets::{self, Token};

/// Lifetime of an access token.
const LIFETIME: TimeDelta = TimeDelta::hours(2);
/// Days after which a refresh token cannot be used any more.
const REFRESH_LIFETIME_DAYS: i64 = 180;
/// Lifetime of a refresh token.
const REFRESH_LIFETIME: TimeDelta = TimeDelta::days(REFRESH_LIFETIME_DAYS);
/// Maximum number of expired rows that one statement deletes, so that other writers wait only briefly.
const BATCH: u64 = 500;
/// Retention of revoked tokens, to detect reuse.
const REVOKED_RETENTION: TimeDelta = TimeDelta::days(30);
/// Prefix of access tokens, which secret scanners recognize.
const PREFIX: &str = "hfoat-";
/// Prefix of refresh tokens, which secret scanners recognize.
const REFRESH_PREFIX: &str = "hfort-";

/// The tokens issued to an application.
#[derive(Debug)]
pub struct IssuedTokens {
    /// The access token.
    pub access_token: String,
    /// The refresh token for the next access token.
    pub refresh_token: String,
    /// Lifetime of the access token, in seconds.
    pub expires_in: i64,
    /// The scopes, separated by spaces.
    pub scope: String,
    /// The creation time.
    pub created_at: DateTime<Utc>,
}

/// Owner and scopes of new tokens.
struct TokenGrant {
    application_id: i64,
    /// The active user, locked before the grant or token changes: a deletion locks them in this order too, and then
    /// deletes the issued tokens.
    user: users::Model,
    family: String,
    scopes: String,
}

/// Exchanges a code for tokens.
///
/// # Errors
/// Returns [`OauthError::InvalidGrant`] for an invalid code. If the code was used before, all tokens issued for it
/// are revoked.
pub async fn exchange(
    backend: &Backend,
    application: &Application,
    code: &str,
    redirect_uri: Option<&str>,
    verifier: Option<&str>,
    ip_address: Option<IpAddr>,
) -> Result<IssuedTokens, OauthError> {
    let sent = CodeExchange {
        digest: secrets::digest(code),
        redirect_uri,
        verifier,
        ip_address,
    };
    backend
        .database
        .transaction(async |transaction| exchange_within(transaction, application, sent).await)
        .await
        .map_err(OauthError::Internal)?
}

/// A code with the parameters that must match it.
struct CodeExchange<'a> {
    digest: String,
    redirect_uri: Option<&'a str>,
    verifier: Option<&'a str>,
    ip_address: Option<IpAddr>,
}

/// A refused grant is returned as `Ok`, so that the transaction commits the revocations.
async fn exchange_within(
    transaction: &DatabaseTransaction,
    application: &Application,
    sent: CodeExchange<'_>,
) -> Result<std::result::Result<IssuedTokens, OauthError>> {
    let found = oauth_grants::Entity::find()
        .filter(oauth_grants::Column::Digest.eq(sent.digest))
        .filter(oauth_grants::Column::ApplicationId.eq(application.id))
        .one(transaction)
        .await?;
    let Some(grant) = found else {
        return Ok(Err(OauthError::InvalidGrant));
    };
    let user = users::lock(transaction, grant.user_id).await?;
    let instant = now();
    if grant.used_at.is_some() {
        return refuse_reuse(
            transaction,
            application,
            user.as_ref(),
            &grant.family,
            sent.ip_address,
        )
        .await;
    }
    let Some(user) = user.filter(is_active) else {
        return Ok(Err(OauthError::InvalidGrant));
    };
    let challenge = grant
        .code_challenge
        .as_deref()
        .zip(grant.code_challenge_method.as_deref());
    let fits = grant.expires_at > instant
        && sent.redirect_uri == Some(grant.redirect_uri.as_str())
        && pkce::is_match(challenge, sent.verifier);
    if !fits {
        return Ok(Err(OauthError::InvalidGrant));
    }
    let used = oauth_grants::Entity::update_many()
        .col_expr(oauth_grants::Column::UsedAt, Expr::value(instant))
        .filter(oauth_grants::Column::Id.eq(grant.id))
        .filter(oauth_grants::Column::UsedAt.is_null())
        .exec(transaction)
        .await?;
    if used.rows_affected == 0 {
        // A concurrent request used the code, and one of the two is not entitled to it.
        return refuse_reuse(
            transaction,
            application,
            Some(&user),
            &grant.family,
            sent.ip_address,
        )
        .await;
    }
    let basis = TokenGrant {
        application_id: application.id,
        user,
        family: grant.family,
        scopes: grant.scopes,
    };
    issue(transaction, basis).await.map(Ok)
}

/// Replaces a refresh token and its access token.
///
/// # Errors
/// Returns [`OauthError::InvalidGrant`] for an invalid or expired token. If it was replaced or revoked before, the
/// whole family is revoked. Returns [`OauthError::InvalidScope`] for scopes beyond its own.
pub async fn refresh(
    backend: &Backend,
    application: &Application,
    token: &str,
    scope: Option<&str>,
    ip_address: Option<IpAddr>,
) -> Result<IssuedTokens, OauthError> {
    let digest = secrets::digest(token);
    backend
        .database
        .transaction(async |transaction| {
            refresh_within(transaction, application, digest, scope, ip_address).await
        })
        .await
        .map_err(OauthError::Internal)?
}

async fn refresh_within(
    transaction: &DatabaseTransaction,
    application: &Application,
    digest: String,
    scope: Option<&str>,
    ip_address: Option<IpAddr>,
) -> Result<std::result::Result<IssuedTokens, OauthError>> {
    let found = oauth_tokens::Entity::find()
        .filter(oauth_tokens::Column::RefreshDigest.eq(digest))
        .filter(oauth_tokens::Column::ApplicationId.eq(application.id))
        .one(transaction)
        .await?;
    let Some(token) = found else {
        return Ok(Err(OauthError::InvalidGrant));
    };
    let user = users::lock(transaction, token.user_id).await?;
    let instant = now();
    let scopes = match granted_scopes(scope, token.scopes()) {
        Ok(scopes) => scopes,
        Err(fault) => return Ok(Err(fault)),
    };
    if token.revoked_at.is_some() {
        return refuse_reuse(transaction, application, user.as_ref(), &token.family, ip_address).await;
    }
    if token.created_at <= instant - REFRESH_LIFETIME {
        return Ok(Err(OauthError::InvalidGrant));
    }
    let Some(user) = user.filter(is_active) else {
        return Ok(Err(OauthError::InvalidGrant));
    };
    let replaced = oauth_tokens::Entity::update_many()
        .col_expr(oauth_tokens::Column::RevokedAt, Expr::value(instant))
        .filter(oauth_tokens::Column::Id.eq(token.id))
        .filter(oauth_tokens::Column::RevokedAt.is_null())
        .exec(transaction)
        .await?;
    if replaced.rows_affected == 0 {
        // A concurrent request replaced the token.
        return refuse_reuse(transaction, application, Some(&user), &token.family, ip_address).await;
    }
    let basis = TokenGrant {
        application_id: application.id,
        user,
        family: token.family,
        scopes,
    };
    issue(transaction, basis).await.map(Ok)
}

/// Returns whether tokens can be issued to a user. Checked before the code or the refresh token is marked as used, so
/// that it remains valid if the user becomes active again.
fn is_active(user: &users::Model) -> bool {
    user.state == UserState::Active
}

async fn issue(transaction: &DatabaseTransaction, basis: TokenGrant) -> Result<IssuedTokens> {
    let (access, refresh, instant) = (Token::generate(PREFIX), Token::generate(REFRESH_PREFIX), now());
    oauth_tokens::Entity::delete_many()
        .filter(oauth_tokens::Column::RevokedAt.lt(instant - REVOKED_RETENTION))
        .exec(transaction)
        .await?;
    let row = oauth_tokens::ActiveModel {
        application_id: Set(basis.application_id),
        user_id: Set(basis.user.id),
        family: Set(basis.family),
        digest: Set(access.digest()),
        refresh_digest: Set(refresh.digest()),
        scopes: Set(basis.scopes),
        created_at: Set(instant),
        expires_at: Set(instant + LIFETIME),
        ..Default::default()
    };
    let row = row.insert(transaction).await?;
    Ok(IssuedTokens {
        access_token: access.expose().to_owned(),
        refresh_token: refresh.expose().to_owned(),
        expires_in: LIFETIME.num_seconds(),
        scope: row.scopes,
        created_at: row.created_at,
    })
}

/// Deletes the tokens whose refresh token has expired, and returns their number.
///
/// # Errors
/// Returns an error if the database fails. Batches that were deleted before the error remain deleted.
pub async fn sweep(backend: &Backend) -> Result<u64> {
    let oldest = now() - REFRESH_LIFETIME;
    let mut swept = 0;
    loop {
        // The tokens with the lowest IDs are the oldest, so the statement reads no others. No index has the times.
        let first = oauth_tokens::Entity::find()
            .select_only()
            .column(oauth_tokens::Column::Id)
            .order_by_asc(oauth_tokens::Column::Id)
            .limit(BATCH)
            .into_query();
        let deleted = oauth_tokens::Entity::delete_many()
            .filter(oauth_tokens::Column::Id.in_subquery(first))
            .filter(oauth_tokens::Column::CreatedAt.lte(oldest))
            .exec(backend.database.write())
            .await?
            .rows_affected;
        swept += deleted;
        if deleted < BATCH {
            return Ok(swept);
        }
    }
}

/// Revokes an access or refresh token of an application with all tokens of its family, also if the token was
/// replaced before: the client that replaced it may have stolen it. An unknown token is not an error (RFC 7009).
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn revoke(
    backend: &Backend,
    application: &Application,
    token: &str,
    ip_address: Option<IpAddr>,
) -> Result<()> {
    let digest = secrets::digest(token);
    backend
        .database
        .transaction(async |transaction| {
            let found = oauth_tokens::Entity::find()
                .filter(oauth_tokens::Column::ApplicationId.eq(application.id))
                .filter(
                    Condition::any()
                        .add(oauth_tokens::Column::Digest.eq(digest.as_str()))
                        .add(oauth_tokens::Column::RefreshDigest.eq(digest.as_str())),
                )
                .one(transaction)
                .await?;
            let Some(token) = found else { return Ok(()) };
            // Locked like in a refresh, which otherwise could issue a token of the family that this does not see.
            let user = users::lock(transaction, token.user_id).await?;
            revoke_family(transaction, application, user.as_ref(), &token.family, ip_address).await
        })
        .await
}

/// Revokes all tokens of a family after the reuse of a code or refresh token.
async fn refuse_reuse(
    transaction: &DatabaseTransaction,
    application: &Application,
    user: Option<&users::Model>,
    family: &str,
    ip_address: Option<IpAddr>,
) -> Result<std::result::Result<IssuedTokens, OauthError>> {
    revoke_family(transaction, application, user, family, ip_address).await?;
    Ok(Err(OauthError::InvalidGrant))
}

/// Revokes all tokens of a family of a locked user, and records the revocation if there were valid tokens.
async fn revoke_family(
    transaction: &DatabaseTransaction,
    application: &Application,
    user: Option<&users::Model>,
    family: &str,
    ip_address: Option<IpAddr>,
) -> Result<()> {
    let revoked = oauth_tokens::revoke_family(transaction, family, now()).await?;
    let Some(user) = user.filter(|_| revoked > 0) else {
        return Ok(());
    };
    let target = AuditTarget::new("OauthApplication", application.id, application.name.clone());
    let event = AuditEvent::new(AuditKind::OauthTokensRevoked, AuditEntity::user(user), target);
    audit::record(
        transaction,
        Actor::application(&application.name, ip_address),
        event,
    )
    .await
}

/// Returns an access token and its user.
///
/// # Errors
/// Returns `Unauthorized` if the token is unknown, revoked or expired.
pub async fn find(backend: &Backend, token: &str) -> Result<(oauth_tokens::Model, users::Model)> {
    let found = oauth_tokens::by_digest(backend.database.read(), &secrets::digest(token)).await?;
    check_valid(found)
}

/// Returns an access token and its user, by the ID of the token.
///
/// # Errors
/// Returns `Unauthorized` if the token is unknown, revoked or expired.
pub async fn find_by_id(backend: &Backend, id: i64) -> Result<(oauth_tokens::Model, users::Model)> {
    check_valid(oauth_tokens::by_id(backend.database.read(), id).await?)
}

fn check_valid(
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

/// Returns the remaining lifetime of an access token, in seconds.
#[must_use]
pub fn seconds_left(token: &oauth_tokens::Model) -> i64 {
    (token.expires_at - now()).num_seconds().max(0)
}
