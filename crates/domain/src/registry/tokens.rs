//! Registry tokens: issued to a client for its credentials, and sent with each request.
//!
//! A token contains a reference to the credentials and the maximum permissions. It is encrypted with the key of the
//! instance, so that every node can read it and clients cannot forge it. A rotation of the key ends all tokens: clients
//! request new ones. Each request checks the credentials and the role again, so that a caller who lost either is
//! refused.

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use storage::entities::now;

use super::repositories::{self, RepositoryPath};
use crate::identity::authentication::caller_of_proof;
use crate::kernel::Backend;
use crate::kernel::caller::{Caller, Proof};
use crate::kernel::error::{Error, Result};
use crate::registry::error::{RegistryError, RegistryErrorCode};
use crate::registry::permissions::{RegistryAction, RegistryActions, can_pull, denial_reason};
use crate::secrets::CurrentKey;
use parsers::registry::ImageName;

/// Encryption context of tokens.
const TOKEN_CONTEXT: &str = "registry.token";
/// Lifetime of a token.
const LIFETIME: TimeDelta = TimeDelta::minutes(15);
/// Maximum number of scopes in a request.
const MAX_SCOPES: usize = 64;

/// An issued token.
pub struct IssuedToken {
    /// The token.
    pub token: String,
    /// The creation time.
    pub issued_at: DateTime<Utc>,
    /// The lifetime in seconds.
    pub expires_in: i64,
}

/// Content of a token. The field names are short because the token is sent in a header.
#[derive(Debug, Serialize, Deserialize)]
struct Claims {
    #[serde(rename = "p")]
    proof: Proof,
    #[serde(rename = "a")]
    access: Vec<(String, RegistryActions)>,
    #[serde(rename = "e")]
    expires_at: i64,
}

/// The caller of a request and the permissions of their token.
pub struct TokenBearer {
    caller: Caller,
    access: Vec<(String, RegistryActions)>,
}

/// The reason why a request needs another token.
#[derive(Debug, PartialEq, Eq)]
pub enum TokenChallenge {
    /// The token is missing or no longer valid.
    Missing,
    /// The token does not grant the operation, but another one might.
    Insufficient,
}

/// The reason why a request is refused.
pub enum TokenRejection {
    /// Another token may help.
    Challenge(TokenChallenge),
    /// No token helps.
    Fault(RegistryError),
}

impl<E: Into<RegistryError>> From<E> for TokenRejection {
    fn from(error: E) -> Self {
        Self::Fault(error.into())
    }
}

/// Issues a token with the requested scopes that the caller is allowed. Scopes that are forbidden or refer to
/// missing repositories are silently omitted. A scope has the form `repository:NAME:ACTION,ACTION`; other
/// forms grant no access.
///
/// # Errors
/// Returns a validation error for too many scopes.
pub async fn issue(backend: &Backend, caller: &Caller, scopes: &[&str]) -> Result<IssuedToken> {
    if scopes.len() > MAX_SCOPES {
        return Err(Error::parameter(format!(
            "too many scopes (maximum is {MAX_SCOPES})"
        )));
    }
    let mut access: Vec<(String, RegistryActions)> = Vec::new();
    for scope in scopes {
        let Some((name, requested)) = parse_scope(scope) else {
            continue;
        };
        let Some(repository_path) = RepositoryPath::find(backend, caller, &name).await? else {
            continue;
        };
        let granted = requested.allowed(&repository_path.access);
        match access.iter_mut().find(|(known, _)| known == name.as_str()) {
            Some((_, known)) => *known = known.union(granted),
            None if granted.is_empty() => {}
            None => access.push((name.to_string(), granted)),
        }
    }
    let key = backend.keyring.refreshed(&backend.database).await?;
    let issued_at = now();
    let claims = Claims {
        proof: caller.proof(),
        access,
        expires_at: (issued_at + LIFETIME).timestamp(),
    };
    let text = serde_json::to_string(&claims).map_err(Error::internal)?;
    Ok(IssuedToken {
        token: key.seal_token(&text, TOKEN_CONTEXT)?,
        issued_at,
        expires_in: LIFETIME.num_seconds(),
    })
}

/// Returns the key with which a token must be encrypted. Another node may have issued the token with a key that
/// became current a moment ago.
async fn issuing_key(backend: &Backend, token: &str) -> Result<CurrentKey> {
    let key = backend.keyring.current(&backend.database).await?;
    match key.has_sealed(token) {
        true => Ok(key),
        false => Ok(backend.keyring.refreshed(&backend.database).await?),
    }
}

/// Parses the name and the actions of a scope; returns `None` unless it is a repository scope.
fn parse_scope(scope: &str) -> Option<(ImageName, RegistryActions)> {
    let (kind, rest) = scope.split_once(':')?;
    let (name, actions) = rest.rsplit_once(':')?;
    let kind = kind.split('(').next()?;
    let name = ImageName::parse(name).ok().filter(|_| kind == "repository")?;
    Some((name, RegistryActions::parse(actions)))
}

impl TokenBearer {
    /// Returns the caller of the token.
    #[must_use]
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Identifies the caller of a token.
    ///
    /// # Errors
    /// Returns [`TokenChallenge::Missing`] if the token is invalid or expired, or if its credentials are no longer
    /// valid.
    pub async fn from_token(backend: &Backend, token: &str) -> Result<Self, TokenRejection> {
        let missing = || TokenRejection::Challenge(TokenChallenge::Missing);
        let key = issuing_key(backend, token).await?;
        let text = key.open_token(token, TOKEN_CONTEXT).map_err(|_| missing())?;
        let claims: Claims = serde_json::from_str(text.expose()).map_err(|_| missing())?;
        if claims.expires_at <= now().timestamp() {
            return Err(missing());
        }
        match caller_of_proof(backend, claims.proof).await {
            Ok(caller) => Ok(Self {
                caller,
                access: claims.access,
            }),
            Err(Error::Unauthorized | Error::InvalidToken(_)) => Err(missing()),
            Err(error) if error.is_forbidden() => Err(missing()),
            Err(error) => Err(error.into()),
        }
    }

    /// Checks that the bearer may do an operation on the images of this name. A repository that they may not
    /// pull is reported as missing, whether it exists or not.
    ///
    /// # Errors
    /// Returns a challenge if another token may help, otherwise `NAME_UNKNOWN` or `DENIED`.
    pub async fn authorize(
        &self,
        backend: &Backend,
        name: &ImageName,
        action: RegistryAction,
    ) -> Result<RepositoryPath, TokenRejection> {
        let anonymous = !self.caller.is_known();
        let hidden = || match anonymous {
            true => TokenRejection::Challenge(TokenChallenge::Missing),
            false => TokenRejection::Fault(repositories::name_unknown(name)),
        };
        let repository_path = RepositoryPath::find(backend, &self.caller, name)
            .await?
            .ok_or_else(hidden)?;
        // A missing scope does not hide the repository: the user may pull it with other credentials.
        if !can_pull(&repository_path.access) && repository_path.access.role.is_none() {
            return Err(hidden());
        }
        match denial_reason(&repository_path.access, action) {
            Some(_) if anonymous => return Err(TokenRejection::Challenge(TokenChallenge::Missing)),
            Some(reason) => {
                return Err(TokenRejection::Fault(RegistryError::new(
                    RegistryErrorCode::Denied,
                    reason,
                )));
            }
            None => {}
        }
        let granted = self.access.iter().find(|(known, _)| known == name.as_str());
        match granted {
            Some((_, granted)) if granted.contains(action) => Ok(repository_path),
            _ => Err(TokenRejection::Challenge(TokenChallenge::Insufficient)),
        }
    }

    /// Resolves this name, if the bearer may pull from it.
    ///
    /// # Errors
    /// Returns an error if a database query fails.
    pub async fn find_source(
        &self,
        backend: &Backend,
        name: &ImageName,
    ) -> Result<Option<RepositoryPath>, RegistryError> {
        match self.authorize(backend, name, RegistryAction::Pull).await {
            Ok(repository_path) => Ok(Some(repository_path)),
            Err(TokenRejection::Fault(fault @ RegistryError::Rule(_))) => Err(fault),
            Err(_) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_scope_requires_repository_name_and_actions() {
        let (name, actions) = parse_scope("repository:a/b/c:pull,push").expect("a scope");
        assert_eq!(
            (name.as_str(), actions),
            ("a/b/c", RegistryActions::parse("pull,push"))
        );
        assert!(parse_scope("repository(plugin):a/b:pull").is_some());
        for other in [
            "",
            "repository",
            "repository:a/b",
            "registry:catalog:*",
            "repository:A/b:pull",
            "repository:host:5000/a/b:pull",
        ] {
            assert!(parse_scope(other).is_none(), "{other}");
        }
    }
}
