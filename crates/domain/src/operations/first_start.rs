//! First start on an empty database: creates the administrator `root` and a token.

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, IntoActiveModel, PaginatorTrait,
    QueryFilter, QueryOrder,
};
use storage::entities::access_tokens::{self as access_tokens_table, TokenKind};
use storage::entities::users;

use crate::accounts::users as accounts;
use crate::accounts::users::NewUser;
use crate::audit::Actor;
use crate::identity::access_tokens::NewToken;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::secrets::{self, Secret, Token};

/// Name of the token of the first start.
const TOKEN_NAME: &str = "first start";
/// Minimum length of a chosen token. Generated ones are longer.
const MIN_TOKEN_LENGTH: usize = 20;
/// Maximum length of a chosen token.
const MAX_TOKEN_LENGTH: usize = 255;

/// Credentials that the operator chose for the first administrator.
#[derive(Debug, Clone, Default)]
pub struct GivenCredentials {
    /// The token.
    pub token: Option<Secret>,
    /// The password.
    pub password: Option<Secret>,
}

/// Generated credentials of the first administrator, to be printed once; absent if the operator chose them.
#[derive(Debug)]
pub struct GeneratedCredentials {
    /// The token.
    pub token: Option<Secret>,
    /// The password.
    pub password: Option<Secret>,
}

/// Creates the administrator `root` if there are no users; otherwise returns `None`.
///
/// # Errors
/// Returns an error if a chosen token or password is too short, and then creates nothing.
pub async fn first_start(
    backend: &Backend,
    chosen: GivenCredentials,
) -> Result<Option<GeneratedCredentials>> {
    if has_users(backend).await? {
        return Ok(None);
    }
    if let Some(token) = &chosen.token {
        check_token(token)?;
    }
    let random = || Secret::new(Token::generate("").expose().to_owned());
    let made_password = chosen.password.is_none().then(random);
    let password = made_password
        .as_ref()
        .or(chosen.password.as_ref())
        .map(|secret| secret.expose().clone());
    let root = NewUser {
        username: "root".to_owned(),
        name: "Administrator".to_owned(),
        email: "root@localhost".to_owned(),
        password,
        admin: true,
    };
    let chosen_token = chosen.token.is_some();
    let secret = chosen.token.map(Secret::into_exposed);
    let token = |user_id| NewToken {
        user_id,
        name: TOKEN_NAME.to_owned(),
        kind: TokenKind::Personal,
        scopes: vec![
            "api".to_owned(),
            "sudo".to_owned(),
            "read_repository".to_owned(),
            "write_repository".to_owned(),
        ],
        expires_at: None,
        created_by_id: None,
        secret,
    };
    // In one transaction: a later start creates no token if there is a user.
    let token = match accounts::create_with_token(backend, &Actor::system(), root, token).await {
        Ok(token) => token,
        // Another node that started at the same time was faster.
        Err(_) if has_users(backend).await? => return Ok(None),
        Err(error) => return Err(error),
    };
    let made_token = (!chosen_token).then(|| Secret::new(token));
    Ok(Some(GeneratedCredentials {
        token: made_token,
        password: made_password,
    }))
}

/// Replaces the token of the first start in a copy of an instance, so that each copy has its own token.
///
/// # Errors
/// Returns [`Error::Rejected`] if the token is not valid, or if the instance has no such token.
pub async fn replace_token(backend: &Backend, token: &Secret) -> Result<()> {
    check_token(token)?;
    let found = access_tokens_table::Entity::find()
        .filter(access_tokens_table::Column::Name.eq(TOKEN_NAME))
        .filter(access_tokens_table::Column::Kind.eq(TokenKind::Personal))
        .order_by_asc(access_tokens_table::Column::Id)
        .one(backend.database.read())
        .await?;
    let found = found.ok_or_else(|| {
        Error::Rejected("the instance has no token of the first administrator; use another snapshot".into())
    })?;
    let row = access_tokens_table::ActiveModel {
        digest: Set(secrets::digest(token.expose())),
        revoked: Set(false),
        expires_at: Set(None),
        ..found.into_active_model()
    };
    row.update(backend.database.write()).await?;
    Ok(())
}

/// Checks a token that the operator chose: it must be hard to guess, and must fit into a header.
fn check_token(token: &Secret) -> Result<()> {
    let token = token.expose();
    let fault = if token.len() < MIN_TOKEN_LENGTH {
        format!("is too short (minimum is {MIN_TOKEN_LENGTH} characters)")
    } else if token.len() > MAX_TOKEN_LENGTH {
        format!("is too long (maximum is {MAX_TOKEN_LENGTH} characters)")
    } else if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        "can contain only ASCII characters without spaces".to_owned()
    } else {
        return Ok(());
    };
    Err(Error::Rejected(format!("root_token {fault}").into()))
}

async fn has_users(backend: &Backend) -> Result<bool> {
    Ok(users::Entity::find().count(backend.database.read()).await? > 0)
}
