//! OAuth 2.0 provider: users grant tokens to applications (ADR 9).
//!
//! It supports the authorization code grant and refresh tokens, with PKCE, which public applications must
//! use. Codes, tokens and secrets are stored only as digests.

pub mod applications;
pub mod authorization;
pub mod revocation;
pub mod tokens;

mod pkce;

use crate::kernel::error::Error;

/// Errors of OAuth requests, as in RFC 6749 and RFC 7636.
#[derive(Debug, thiserror::Error)]
pub enum OauthError {
    /// A parameter is missing or invalid; the text names it.
    #[error("{0}")]
    InvalidRequest(&'static str),
    /// The application is unknown, or its secret is wrong.
    #[error(
        "Client authentication failed due to unknown client, no client authentication, or a wrong secret."
    )]
    InvalidClient,
    /// The code or refresh token is unknown, used, expired, or not for this application and address.
    #[error(
        "The provided authorization grant is invalid, expired, revoked, does not match the redirection URI used in the authorization request, or was issued to another client."
    )]
    InvalidGrant,
    /// A scope is unknown, or the application may not request it.
    #[error("The requested scope is invalid, unknown, or malformed.")]
    InvalidScope,
    /// The grant type is not supported.
    #[error("The authorization grant type is not supported by the authorization server.")]
    UnsupportedGrantType,
    /// The response type is not supported.
    #[error("The authorization server does not support this response type.")]
    UnsupportedResponseType,
    /// The user denied the request.
    #[error("The resource owner or authorization server denied the request.")]
    AccessDenied,
    /// An internal error.
    #[error(transparent)]
    Internal(#[from] Error),
}

impl OauthError {
    /// Returns the value of the `error` field.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::InvalidRequest(_) => "invalid_request",
            Self::InvalidClient => "invalid_client",
            Self::InvalidGrant => "invalid_grant",
            Self::InvalidScope => "invalid_scope",
            Self::UnsupportedGrantType => "unsupported_grant_type",
            Self::UnsupportedResponseType => "unsupported_response_type",
            Self::AccessDenied => "access_denied",
            Self::Internal(_) => "server_error",
        }
    }
}

impl From<sea_orm::DbErr> for OauthError {
    fn from(error: sea_orm::DbErr) -> Self {
        Self::Internal(error.into())
    }
}

/// Returns the requested scopes, which must all be allowed. Without any, returns all allowed scopes.
fn granted_scopes<'a>(
    requested: Option<&'a str>,
    allowed: impl Iterator<Item = &'a str> + Clone,
) -> Result<String, OauthError> {
    let mut scopes: Vec<&str> = Vec::new();
    for scope in requested.unwrap_or_default().split_ascii_whitespace() {
        if !allowed.clone().any(|known| known == scope) {
            return Err(OauthError::InvalidScope);
        }
        if !scopes.contains(&scope) {
            scopes.push(scope);
        }
    }
    if scopes.is_empty() {
        scopes.extend(allowed);
    }
    Ok(scopes.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_can_be_reduced_but_not_extended() {
        let narrow = |requested| granted_scopes(requested, ["api", "read_user"].into_iter()).ok();
        assert_eq!(narrow(Some("read_user read_user")).as_deref(), Some("read_user"));
        assert_eq!(narrow(None).as_deref(), Some("api read_user"));
        assert_eq!(narrow(Some(" ")).as_deref(), Some("api read_user"));
        assert_eq!(narrow(Some("api sudo")), None);
    }
}
