//! Personal, impersonation and project access tokens.

use domain::accounts::project_access_tokens::ProjectToken;
use domain::identity::access_tokens::TokenActivity;
use storage::entities::access_tokens::Model;
use storage::entities::now;

use contract::{ImpersonationToken, PersonalAccessToken, ProjectAccessToken, TokenScope};

/// Returns the scopes; unknown ones cannot have been stored.
pub(crate) fn scopes<'a>(words: impl Iterator<Item = &'a str>) -> Vec<TokenScope> {
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
    words.filter_map(known).collect()
}

/// Returns a personal access token; the secret is given only on creation.
#[must_use]
pub fn personal(token: Model, secret: Option<String>) -> PersonalAccessToken {
    PersonalAccessToken {
        scopes: scopes(token.scopes()),
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

/// Returns an impersonation token; the secret is given only on creation.
#[must_use]
pub fn impersonation(token: Model, secret: Option<String>) -> ImpersonationToken {
    ImpersonationToken {
        scopes: scopes(token.scopes()),
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

/// Returns a project access token; the secret is given only on creation.
#[must_use]
pub fn project(token: ProjectToken, secret: Option<String>) -> ProjectAccessToken {
    let ProjectToken { token, access_level } = token;
    ProjectAccessToken {
        scopes: scopes(token.scopes()),
        active: token.is_active(now().date_naive()),
        id: token.id,
        name: token.name,
        revoked: token.revoked,
        created_at: token.created_at.into(),
        user_id: token.user_id,
        expires_at: token.expires_at,
        last_used_at: token.last_used_at.map(Into::into),
        access_level: access_level.map_or(0, |level| i64::from(i32::from(level))),
        token: secret,
    }
}

/// Converts the filter on the state of tokens.
#[must_use]
pub fn token_activity(state: Option<contract::TokenState>) -> TokenActivity {
    match state {
        None | Some(contract::TokenState::All) => TokenActivity::Any,
        Some(contract::TokenState::Active) => TokenActivity::Active,
        Some(contract::TokenState::Inactive) => TokenActivity::Inactive,
    }
}
