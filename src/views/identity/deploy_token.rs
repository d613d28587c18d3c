//! Deploy tokens.

use storage::entities::deploy_tokens::Model;
use storage::entities::now;

use contract::{DeployToken, DeployTokenScope};

/// Returns a deploy token; the secret is given only on creation.
#[must_use]
pub fn deploy_token(token: Model, secret: Option<String>) -> DeployToken {
    DeployToken {
        username: token.username(),
        scopes: token.scopes().filter_map(scope).collect(),
        expired: token.is_expired(now()),
        id: token.id,
        name: token.name,
        expires_at: token.expires_at.map(Into::into),
        revoked: false,
        token: secret,
    }
}

/// Returns the scope with a name; unknown ones cannot have been stored.
fn scope(name: &str) -> Option<DeployTokenScope> {
    match name {
        "read_repository" => Some(DeployTokenScope::ReadRepository),
        "read_registry" => Some(DeployTokenScope::ReadRegistry),
        "write_registry" => Some(DeployTokenScope::WriteRegistry),
        "read_package_registry" => Some(DeployTokenScope::ReadPackageRegistry),
        "write_package_registry" => Some(DeployTokenScope::WritePackageRegistry),
        _ => None,
    }
}
