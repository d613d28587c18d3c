//! OAuth 2.0: this server lets users grant applications tokens (specification 5, ADR 9).
//!
//! Only the authorization code grant and refreshing are offered, with PKCE, which applications that cannot keep a
//! secret must use. Of codes, tokens and secrets only digests are kept.

pub mod applications;
pub mod authorization;
pub mod tokens;

mod pkce;

use crate::error::Error;

/// Why a request of an application is refused, in the words of RFC 6749 and RFC 7636.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// A parameter is missing or makes no sense; the text says which.
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
    /// A scope is unknown, or not one that the application may ask for.
    #[error("The requested scope is invalid, unknown, or malformed.")]
    InvalidScope,
    /// The grant type is not offered.
    #[error("The authorization grant type is not supported by the authorization server.")]
    UnsupportedGrantType,
    /// The response type is not offered.
    #[error("The authorization server does not support this response type.")]
    UnsupportedResponseType,
    /// The user said no.
    #[error("The resource owner or authorization server denied the request.")]
    AccessDenied,
    /// A failure of ours.
    #[error(transparent)]
    Internal(#[from] Error),
}

impl Fault {
    /// The word that goes into `error`.
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

impl From<sea_orm::DbErr> for Fault {
    fn from(error: sea_orm::DbErr) -> Self {
        Self::Internal(error.into())
    }
}

/// The scopes asked for, all of which must be among those allowed; all allowed ones when none is asked for.
fn narrowed<'a>(
    asked: Option<&'a str>,
    allowed: impl Iterator<Item = &'a str> + Clone,
) -> Result<String, Fault> {
    let mut scopes: Vec<&str> = Vec::new();
    for scope in asked.unwrap_or_default().split_ascii_whitespace() {
        if !allowed.clone().any(|known| known == scope) {
            return Err(Fault::InvalidScope);
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
    fn scopes_are_narrowed_and_never_widened() {
        let narrow = |asked| narrowed(asked, ["api", "read_user"].into_iter()).ok();
        assert_eq!(narrow(Some("read_user read_user")).as_deref(), Some("read_user"));
        assert_eq!(narrow(None).as_deref(), Some("api read_user"));
        assert_eq!(narrow(Some(" ")).as_deref(), Some("api read_user"));
        assert_eq!(narrow(Some("api sudo")), None);
    }
}
