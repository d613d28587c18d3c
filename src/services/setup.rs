//! The first start on an empty database: the administrator `root` and a token (design 8).

use sea_orm::{EntityTrait, PaginatorTrait};

use crate::entities::access_tokens::Kind;
use crate::entities::users;
use crate::error::Result;
use crate::secrets::{Secret, Token};
use crate::services::access_tokens::{self, NewToken};
use crate::services::users::NewUser;
use crate::services::{Backend, users as accounts};

/// What the operator chose for the first administrator.
#[derive(Debug, Clone, Default)]
pub struct Chosen {
    /// The token.
    pub token: Option<Secret>,
    /// The password.
    pub password: Option<Secret>,
}

/// What was made up for the first administrator, to be printed once; absent where it was chosen.
#[derive(Debug)]
pub struct MadeUp {
    /// The token.
    pub token: Option<Secret>,
    /// The password.
    pub password: Option<Secret>,
}

/// Makes the administrator `root` when there is no user at all; `None` when there are users already.
///
/// # Errors
/// When a chosen password is too short, or whatever the database reports.
pub async fn first_start(backend: &Backend, chosen: Chosen) -> Result<Option<MadeUp>> {
    if has_users(backend).await? {
        return Ok(None);
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
    let root = match accounts::create(backend, root).await {
        Ok(root) => root,
        // Another node that started at the same time was faster.
        Err(_) if has_users(backend).await? => return Ok(None),
        Err(error) => return Err(error),
    };
    let chosen_token = chosen.token.is_some();
    let new = NewToken {
        user_id: root.id,
        name: "first start".to_owned(),
        kind: Kind::Personal,
        scopes: vec![
            "api".to_owned(),
            "sudo".to_owned(),
            "read_repository".to_owned(),
            "write_repository".to_owned(),
        ],
        expires_at: None,
        created_by_id: None,
        secret: chosen.token.map(Secret::into_exposed),
    };
    let (_, token) = access_tokens::create(backend, new).await?;
    let made_token = (!chosen_token).then(|| Secret::new(token));
    Ok(Some(MadeUp {
        token: made_token,
        password: made_password,
    }))
}

async fn has_users(backend: &Backend) -> Result<bool> {
    Ok(users::Entity::find().count(backend.database.read()).await? > 0)
}
