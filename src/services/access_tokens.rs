//! Tokens that stand for a user (specification 5): made, listed, taken back. Only their digests are kept.

use chrono::NaiveDate;
use sea_orm::{ActiveModelTrait, ActiveValue::Set};

use crate::entities::access_tokens::{self, Kind};
use crate::entities::now;
use crate::error::{Error, Result};
use crate::policy::SCOPES;
use crate::secrets::Token;
use crate::services::Backend;

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
pub async fn create(backend: &Backend, new: NewToken) -> Result<(access_tokens::Model, String)> {
    if new.scopes.is_empty() {
        return Err(Error::attribute("scopes", "can't be blank"));
    }
    if new.scopes.iter().any(|scope| !SCOPES.contains(&scope.as_str())) {
        return Err(Error::attribute("scopes", "can only contain available scopes"));
    }
    let secret = new
        .secret
        .unwrap_or_else(|| Token::generate(PREFIX).expose().to_owned());
    let row = access_tokens::ActiveModel {
        user_id: Set(new.user_id),
        name: Set(new.name),
        kind: Set(new.kind),
        digest: Set(crate::secrets::digest(&secret)),
        scopes: Set(new.scopes.join(" ")),
        revoked: Set(false),
        expires_at: Set(new.expires_at),
        created_by_id: Set(new.created_by_id),
        created_at: Set(now()),
        ..Default::default()
    };
    Ok((row.insert(backend.database.write()).await?, secret))
}
