//! Tokens that stand for a user (specification 5): made, listed, taken back. Only their digests are kept.

use chrono::NaiveDate;
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, QueryFilter, QueryOrder, Select,
};

use crate::services::kernel::page::{Page, PageRequest};
pub use storage::entities::access_tokens::Kind;
use storage::entities::access_tokens::{self, Column, Entity, Model};
use storage::entities::now;

use crate::error::{Error, Result};
use crate::policy::SCOPES;
use crate::secrets::Token;
use crate::services::authentication::Caller;
use crate::services::listing::page_of;
use crate::services::{Backend, preconditions};

/// What secret scanners know the tokens by.
const PREFIX: &str = "hfpat-";

/// What a new token is to be.
#[derive(Debug, Clone)]
pub struct NewToken {
    /// The user it acts as.
    pub user_id: i64,
    /// What its holder calls it.
    pub name: String,
    /// How it came about.
    pub kind: Kind,
    /// Its scopes.
    pub scopes: Vec<String>,
    /// The last day it is good for.
    pub expires_at: Option<NaiveDate>,
    /// Who makes it, when that is another user.
    pub created_by_id: Option<i64>,
    /// The token itself, where it was chosen elsewhere; otherwise it is random.
    pub secret: Option<String>,
}

/// Makes a token; the secret is given out here and never again.
///
/// # Errors
/// 400 when there is no scope or an unknown one.
pub async fn create(backend: &Backend, new: NewToken) -> Result<(Model, String)> {
    let (row, secret) = prepare(new)?;
    Ok((row.insert(backend.database.write()).await?, secret))
}

/// The row of a new token, and the token itself.
///
/// # Errors
/// 400 when there is no scope or an unknown one.
pub(super) fn prepare(new: NewToken) -> Result<(access_tokens::ActiveModel, String)> {
    let scopes = checked_scopes(&new.scopes, &SCOPES)?;
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

/// The scopes as they are stored: each once, all of them known.
///
/// # Errors
/// 400 under `scopes`.
pub(super) fn checked_scopes(wanted: &[String], known: &[&str]) -> Result<String> {
    if wanted.is_empty() {
        return Err(Error::attribute("scopes", "can't be blank"));
    }
    let mut scopes: Vec<&str> = Vec::with_capacity(wanted.len());
    for scope in wanted {
        if !scopes.contains(&scope.as_str()) {
            scopes.push(scope);
        }
    }
    if scopes.iter().any(|scope| !known.contains(scope)) {
        return Err(Error::attribute("scopes", "can only contain available scopes"));
    }
    Ok(scopes.join(" "))
}

/// Which tokens a list holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Activity {
    /// All of them.
    #[default]
    Any,
    /// Those that work.
    Active,
    /// Those that were revoked or have expired.
    Inactive,
}

/// A page of a user's impersonation tokens, in the order they were made.
///
/// # Errors
/// Whatever the database reports.
pub async fn impersonation_list(
    backend: &Backend,
    user_id: i64,
    activity: Activity,
    page: &PageRequest,
) -> Result<Page<Model>> {
    paged(
        backend,
        access_tokens::of_user(user_id, Kind::Impersonation),
        activity,
        page,
    )
    .await
}

/// One impersonation token of a user.
///
/// # Errors
/// 404.
pub async fn impersonation(backend: &Backend, user_id: i64, id: i64) -> Result<Model> {
    let found = access_tokens::of_user(user_id, Kind::Impersonation)
        .filter(Column::Id.eq(id))
        .one(backend.database.read())
        .await?;
    found.ok_or_else(|| Error::not_found("Impersonation Token"))
}

/// Takes an impersonation token back; its row stays. Doing so twice is no error.
///
/// # Errors
/// 404, and 412 when the token is newer than the caller's date.
pub async fn revoke_impersonation(
    backend: &Backend,
    user_id: i64,
    id: i64,
    unmodified_since: Option<&str>,
) -> Result<()> {
    let token = impersonation(backend, user_id, id).await?;
    preconditions::unmodified_since(unmodified_since, token.created_at)?;
    revoke(backend, token.id).await
}

/// A page of personal tokens: the caller's, or whichever an administrator asks for.
///
/// # Errors
/// 401 for others who ask for somebody else's (facts on personal tokens).
pub async fn personal_list(
    backend: &Backend,
    caller: &Caller,
    user_id: Option<i64>,
    activity: Activity,
    page: &PageRequest,
) -> Result<Page<Model>> {
    let own = caller.signed_in()?.id;
    let wanted = match user_id {
        Some(id) if id != own && !caller.is_admin() => return Err(Error::Unauthorized),
        Some(id) => Some(id),
        None => (!caller.is_admin()).then_some(own),
    };
    let tokens = match wanted {
        Some(id) => access_tokens::of_user(id, Kind::Personal),
        None => Entity::find()
            .filter(Column::Kind.eq(Kind::Personal))
            .order_by_asc(Column::Id),
    };
    paged(backend, tokens, activity, page).await
}

/// The token that a request was made with.
///
/// # Errors
/// 404 when it was made with something else.
pub fn own(caller: &Caller) -> Result<Model> {
    let token = caller.access_token().cloned();
    token.ok_or_else(|| Error::not_found("Personal Access Token"))
}

/// Takes a personal token back; its row stays. Doing so twice is no error.
///
/// # Errors
/// 404 for an id without a token, 400 for somebody else's unless an administrator calls, 412 when the token is
/// newer than the caller's date.
pub async fn revoke_personal(
    backend: &Backend,
    caller: &Caller,
    id: i64,
    unmodified_since: Option<&str>,
) -> Result<()> {
    let found = Entity::find_by_id(id)
        .filter(Column::Kind.eq(Kind::Personal))
        .one(backend.database.read())
        .await?;
    let token = found.ok_or_else(|| Error::not_found("Personal Access Token"))?;
    if token.user_id != caller.signed_in()?.id && !caller.is_admin() {
        return Err(Error::Refused("400 Bad request".into()));
    }
    preconditions::unmodified_since(unmodified_since, token.created_at)?;
    revoke(backend, token.id).await
}

async fn revoke(backend: &Backend, id: i64) -> Result<()> {
    Entity::update_many()
        .col_expr(Column::Revoked, Expr::value(true))
        .filter(Column::Id.eq(id))
        .exec(backend.database.write())
        .await?;
    Ok(())
}

/// A page of those of these tokens that are in the state asked for.
pub(super) async fn paged(
    backend: &Backend,
    tokens: Select<Entity>,
    activity: Activity,
    page: &PageRequest,
) -> Result<Page<Model>> {
    let today = now().date_naive();
    let expired = || Column::ExpiresAt.is_not_null().and(Column::ExpiresAt.lt(today));
    let tokens = match activity {
        Activity::Any => tokens,
        Activity::Active => tokens
            .filter(Column::Revoked.eq(false))
            .filter(Column::ExpiresAt.is_null().or(Column::ExpiresAt.gte(today))),
        Activity::Inactive => tokens.filter(Column::Revoked.eq(true).or(expired())),
    };
    page_of(backend.database.read(), tokens, page).await
}
