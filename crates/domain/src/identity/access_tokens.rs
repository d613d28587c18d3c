//! Access tokens of users. Only their digests are stored.

use chrono::NaiveDate;
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter,
    QueryOrder, Select,
};

use crate::audit::{self, Actor, AuditEntity, AuditEvent, AuditKind, AuditTarget};
use crate::identity::access::UserAccess;
use crate::kernel::page::{Page, PageRequest};
pub use storage::entities::access_tokens::TokenKind;
use storage::entities::access_tokens::{self, Column, Entity, Model};
use storage::entities::{now, users};

use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::kernel::policy::TOKEN_SCOPES;
use crate::kernel::query::{batch_after, page_of};
use crate::kernel::{Backend, preconditions};
use crate::secrets::Token;

/// Prefix by which secret scanners recognize the tokens.
const PREFIX: &str = "hfpat-";

/// Attributes of a new token.
#[derive(Debug, Clone)]
pub struct NewToken {
    /// The user it authenticates.
    pub user_id: i64,
    /// Name of the token.
    pub name: String,
    /// Kind of the token.
    pub kind: TokenKind,
    /// Its scopes.
    pub scopes: Vec<String>,
    /// Last day on which it is valid.
    pub expires_at: Option<NaiveDate>,
    /// The user who creates it, if it is not its owner.
    pub created_by_id: Option<i64>,
    /// The token itself, if the caller chose it. A random one is generated otherwise.
    pub secret: Option<String>,
}

/// Creates a token. The secret is returned only here.
///
/// # Errors
/// Returns `Error::InvalidAttributes` if `scopes` is empty or contains an unknown scope. Returns
/// `Error::NotFound` if the user was deleted in the meantime.
pub async fn create(backend: &Backend, actor: &Actor, new: NewToken) -> Result<(Model, String)> {
    let user_id = new.user_id;
    let (row, secret) = prepare(new)?;
    let token = backend
        .database
        .transaction(async |transaction| {
            // A deletion waits for the token and then deletes it.
            let user = users::lock(transaction, user_id).await?;
            let user = user.ok_or_else(|| Error::not_found("User"))?;
            insert(transaction, actor, &user, row).await
        })
        .await?;
    Ok((token, secret))
}

/// Inserts a token of a user, whose row is locked, and records the event.
pub(crate) async fn insert(
    transaction: &DatabaseTransaction,
    actor: &Actor,
    user: &users::Model,
    row: access_tokens::ActiveModel,
) -> Result<Model> {
    let token = row.insert(transaction).await?;
    let event = event(
        &token,
        AuditKind::PersonalTokenCreated,
        AuditKind::ImpersonationTokenCreated,
        user,
    );
    audit::record(transaction, actor, event.to(&token.scopes)).await?;
    Ok(token)
}

/// Returns the event of a personal or impersonation token.
fn event(token: &Model, personal: AuditKind, impersonation: AuditKind, user: &users::Model) -> AuditEvent {
    let kind = match token.kind {
        TokenKind::Impersonation => impersonation,
        TokenKind::Personal | TokenKind::Project => personal,
    };
    let target = AuditTarget::new("AccessToken", token.id, token.name.clone());
    AuditEvent::new(kind, AuditEntity::user(user), target)
}

/// Returns the row of a new token, and the token itself.
///
/// # Errors
/// Returns `Error::InvalidAttributes` if `scopes` is empty or contains an unknown scope.
pub(crate) fn prepare(new: NewToken) -> Result<(access_tokens::ActiveModel, String)> {
    let scopes = check_scopes(&new.scopes, &TOKEN_SCOPES)?;
    let secret = new
        .secret
        .unwrap_or_else(|| Token::generate(PREFIX).expose().to_owned());
    let row = access_tokens::ActiveModel {
        user_id: Set(new.user_id),
        name: Set(new.name),
        kind: Set(new.kind),
        digest: Set(crate::secrets::digest(&secret)),
        scopes: Set(scopes),
        revoked: Set(false),
        expires_at: Set(new.expires_at),
        created_by_id: Set(new.created_by_id),
        created_at: Set(now()),
        ..Default::default()
    };
    Ok((row, secret))
}

/// Returns the scopes as they are stored, without duplicates.
///
/// # Errors
/// Returns `Error::InvalidAttributes` if `scopes` is empty or contains an unknown scope.
pub(crate) fn check_scopes(requested: &[String], known: &[&str]) -> Result<String> {
    if requested.is_empty() {
        return Err(Error::attribute("scopes", "can't be blank"));
    }
    let mut scopes: Vec<&str> = Vec::new();
    for scope in requested {
        // Checked first, so that `scopes` remains as short as `known`: a request can contain 100,000 unknown scopes.
        if !known.contains(&scope.as_str()) {
            return Err(Error::attribute("scopes", "can only contain available scopes"));
        }
        if !scopes.contains(&scope.as_str()) {
            scopes.push(scope);
        }
    }
    Ok(scopes.join(" "))
}

/// Filter of token lists by state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TokenActivity {
    /// All tokens.
    #[default]
    Any,
    /// Active tokens.
    Active,
    /// Revoked and expired tokens.
    Inactive,
}

/// Returns a page of a user's impersonation tokens, oldest first.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn list_impersonation(
    backend: &Backend,
    user_id: i64,
    activity: TokenActivity,
    page: &PageRequest,
) -> Result<Page<Model>> {
    page_of_tokens(
        backend,
        access_tokens::of_user(user_id, TokenKind::Impersonation),
        activity,
        page,
    )
    .await
}

/// Returns one impersonation token of a user.
///
/// # Errors
/// Returns `Error::NotFound` if the user has no such token.
pub async fn get_impersonation(backend: &Backend, user_id: i64, id: i64) -> Result<Model> {
    let found = access_tokens::of_user(user_id, TokenKind::Impersonation)
        .filter(Column::Id.eq(id))
        .one(backend.database.read())
        .await?;
    found.ok_or_else(|| Error::not_found("Impersonation Token"))
}

/// Revokes an impersonation token. Its row stays, and revoking it again succeeds.
///
/// # Errors
/// Returns `Error::NotFound` if the user has no such token. Returns `Error::PreconditionFailed` if it was
/// created after `unmodified_since`.
pub async fn revoke_impersonation(
    backend: &Backend,
    access: &UserAccess,
    id: i64,
    unmodified_since: Option<&str>,
) -> Result<()> {
    let token = get_impersonation(backend, access.user.id, id).await?;
    preconditions::check_unmodified_since(unmodified_since, token.created_at)?;
    revoke_as(backend, &Actor::from(&access.caller), &token, Some(&access.user)).await?;
    Ok(())
}

/// Returns a page of personal access tokens: the caller's, or those of any user for administrators.
///
/// # Errors
/// Returns `Error::Unauthorized` if a caller other than an administrator requests the tokens of another user.
pub async fn list_personal(
    backend: &Backend,
    caller: &Caller,
    user_id: Option<i64>,
    activity: TokenActivity,
    page: &PageRequest,
) -> Result<Page<Model>> {
    let own = caller.signed_in()?.id;
    let requested = match user_id {
        Some(id) if id != own && !caller.is_admin() => return Err(Error::Unauthorized),
        Some(id) => Some(id),
        None => (!caller.is_admin()).then_some(own),
    };
    let tokens = match requested {
        Some(id) => access_tokens::of_user(id, TokenKind::Personal),
        None => Entity::find()
            .filter(Column::Kind.eq(TokenKind::Personal))
            .order_by_asc(Column::Id),
    };
    page_of_tokens(backend, tokens, activity, page).await
}

/// Returns the token that authenticated the request.
///
/// # Errors
/// Returns `Error::NotFound` if the request was authenticated otherwise.
pub fn current(caller: &Caller) -> Result<Model> {
    let token = caller.access_token().cloned();
    token.ok_or_else(|| Error::not_found("Personal Access Token"))
}

/// Revokes a personal access token. Its row stays, and revoking it again succeeds.
///
/// # Errors
/// Returns `Error::NotFound` if the token does not exist. Returns `Error::Rejected` if it belongs to another
/// user and the caller is not an administrator. Returns `Error::PreconditionFailed` if it was created after
/// `unmodified_since`.
pub async fn revoke_personal(
    backend: &Backend,
    caller: &Caller,
    id: i64,
    unmodified_since: Option<&str>,
) -> Result<()> {
    let found = Entity::find_by_id(id)
        .filter(Column::Kind.eq(TokenKind::Personal))
        .one(backend.database.read())
        .await?;
    let token = found.ok_or_else(|| Error::not_found("Personal Access Token"))?;
    let user = caller.signed_in()?;
    let is_own = token.user_id == user.id;
    if !is_own && !caller.is_admin() {
        return Err(Error::Rejected("400 Bad request".into()));
    }
    preconditions::check_unmodified_since(unmodified_since, token.created_at)?;
    revoke_as(backend, &Actor::from(caller), &token, is_own.then_some(user)).await?;
    Ok(())
}

/// Revokes a personal or impersonation token, whose user may be known. Returns `false` if it was revoked already.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn revoke_as(
    backend: &Backend,
    actor: &Actor,
    token: &Model,
    owner: Option<&users::Model>,
) -> Result<bool> {
    backend
        .database
        .transaction(async |transaction| {
            let revoked = Entity::update_many()
                .col_expr(Column::Revoked, Expr::value(true))
                .filter(Column::Id.eq(token.id))
                .filter(Column::Revoked.eq(false))
                .exec(transaction)
                .await?;
            if revoked.rows_affected == 0 {
                return Ok(false);
            }
            let owner = match owner {
                Some(owner) => Some(owner.clone()),
                None => users::Entity::find_by_id(token.user_id).one(transaction).await?,
            };
            // The owner was deleted concurrently, and the token with the owner.
            let Some(owner) = owner else { return Ok(true) };
            let event = event(
                token,
                AuditKind::PersonalTokenRevoked,
                AuditKind::ImpersonationTokenRevoked,
                &owner,
            );
            audit::record(transaction, actor, event).await?;
            Ok(true)
        })
        .await
}

/// Returns the token with an ID, of any kind.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist.
pub async fn get(backend: &Backend, id: i64) -> Result<Model> {
    let found = Entity::find_by_id(id).one(backend.database.read()).await?;
    found.ok_or_else(|| Error::not_found("Access Token"))
}

/// Returns up to `limit` personal and impersonation tokens of a user with IDs above `after`, in the order of their
/// IDs.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn list_after(
    backend: &Backend,
    user_id: i64,
    activity: TokenActivity,
    after: i64,
    limit: u64,
) -> Result<Vec<Model>> {
    let tokens = Entity::find()
        .filter(Column::UserId.eq(user_id))
        .filter(Column::Kind.is_in([TokenKind::Personal, TokenKind::Impersonation]));
    batch_after(
        backend.database.read(),
        filter(tokens, activity),
        Column::Id,
        after,
        limit,
    )
    .await
}

/// Returns a page of the tokens that match `activity`.
pub(crate) async fn page_of_tokens(
    backend: &Backend,
    tokens: Select<Entity>,
    activity: TokenActivity,
    page: &PageRequest,
) -> Result<Page<Model>> {
    page_of(backend.database.read(), filter(tokens, activity), page).await
}

/// Selects the tokens that match `activity`.
pub(crate) fn filter(tokens: Select<Entity>, activity: TokenActivity) -> Select<Entity> {
    let today = now().date_naive();
    let expired = || Column::ExpiresAt.is_not_null().and(Column::ExpiresAt.lt(today));
    match activity {
        TokenActivity::Any => tokens,
        TokenActivity::Active => tokens
            .filter(Column::Revoked.eq(false))
            .filter(Column::ExpiresAt.is_null().or(Column::ExpiresAt.gte(today))),
        TokenActivity::Inactive => tokens.filter(Column::Revoked.eq(true).or(expired())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_known_and_stored_once() {
        let requested = ["api", "read_user", "api"].map(str::to_owned);
        assert_eq!(check_scopes(&requested, &TOKEN_SCOPES).unwrap(), "api read_user");
        assert!(check_scopes(&[], &TOKEN_SCOPES).is_err());
        assert!(check_scopes(&["api".to_owned(), "x".to_owned()], &TOKEN_SCOPES).is_err());
    }
}
