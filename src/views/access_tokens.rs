//! Personal and impersonation tokens.

use crate::api::contract::{ImpersonationToken, PersonalAccessToken, TokenScope};
use crate::entities::access_tokens::Model;
use crate::entities::now;

/// The scopes; a word that the interface does not know cannot have been stored.
fn scopes(token: &Model) -> Vec<TokenScope> {
    let known = |scope: &str| match scope {
        "api" => Some(TokenScope::Api),
        "read_api" => Some(TokenScope::ReadApi),
        "read_user" => Some(TokenScope::ReadUser),
        "read_repository" => Some(TokenScope::ReadRepository),
        "write_repository" => Some(TokenScope::WriteRepository),
        "read_registry" => Some(TokenScope::ReadRegistry),
        "write_registry" => Some(TokenScope::WriteRegistry),
        "sudo" => Some(TokenScope::Sudo),
        _ => None,
    };
    token.scopes().filter_map(known).collect()
}

/// A personal token; the secret is there only in the answer that makes it.
#[must_use]
pub fn personal(token: Model, secret: Option<String>) -> PersonalAccessToken {
    PersonalAccessToken {
        scopes: scopes(&token),
        active: token.is_active(now().date_naive()),
        id: token.id,
        name: token.name,
        revoked: token.revoked,
        created_at: token.created_at.into(),
        user_id: token.user_id,
        expires_at: token.expires_at,
        last_used_at: token.last_used_at.map(Into::into),
        token: secret,
    }
}

/// An impersonation token; the secret is there only in the answer that makes it.
#[must_use]
pub fn impersonation(token: Model, secret: Option<String>) -> ImpersonationToken {
    ImpersonationToken {
        scopes: scopes(&token),
        active: token.is_active(now().date_naive()),
        id: token.id,
        name: token.name,
        revoked: token.revoked,
        created_at: token.created_at.into(),
        user_id: token.user_id,
        expires_at: token.expires_at,
        impersonation: true,
        token: secret,
    }
}
