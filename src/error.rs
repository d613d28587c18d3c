//! What a service can refuse, in the terms of the domain; nothing here knows of HTTP.
//!
//! Each variant states the rule of `docs/API-DESIGN.md` that the edge (`api::failure`) follows when it turns the
//! error into an answer. Internal causes travel in [`Error::Internal`]; they are logged once and never sent.

use std::borrow::Cow;
use std::collections::BTreeMap;

/// The result of a service.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a request was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No or unknown credentials (specification 5).
    #[error("401 Unauthorized")]
    Unauthorized,
    /// Credentials that were valid once, or are switched off.
    #[error("invalid token: {0}")]
    InvalidToken(TokenFault),
    /// The token's scopes do not cover the operation; holds those that would.
    #[error("insufficient scope")]
    InsufficientScope(Vec<&'static str>),
    /// The caller may not do this; the text, when there is one, says why.
    #[error("403 Forbidden")]
    Forbidden(Option<Cow<'static, str>>),
    /// Something is not there, or the caller may not know that it is; the text names its kind (`Project`).
    #[error("404 {0} Not Found")]
    NotFound(Cow<'static, str>),
    /// Something is not there yet, or not any more.
    #[error("404 Not found or has expired")]
    NotFoundOrExpired,
    /// Parameters that break the contract; every fault of the request.
    #[error("{}", .0.join(", "))]
    InvalidParameters(Vec<String>),
    /// A rule of the domain refuses the request as a whole.
    #[error("{0}")]
    Refused(Cow<'static, str>),
    /// Rules of the domain refuse single attributes: attribute -> texts.
    #[error("attributes are invalid")]
    InvalidAttributes(BTreeMap<Cow<'static, str>, Vec<Cow<'static, str>>>),
    /// A cherry-pick or revert that leads nowhere (specification 4.2).
    #[error("{message}")]
    NotApplicable {
        /// What to tell the caller.
        message: Cow<'static, str>,
        /// `empty` or `conflict`.
        code: &'static str,
    },
    /// A provisioning request that makes no sense (specification 4.19).
    #[error("{text}")]
    Unprovisionable {
        /// What of it.
        fault: ProvisioningFault,
        /// What to tell the caller.
        text: Cow<'static, str>,
    },
    /// What is to be made exists already.
    #[error("{0}")]
    Conflict(Cow<'static, str>),
    /// The resource changed after the time the caller gave.
    #[error("412 Precondition Failed")]
    PreconditionFailed,
    /// The request is larger than the operation takes.
    #[error("413 Request Entity Too Large")]
    TooLarge,
    /// The request is well formed but cannot be processed.
    #[error("{0}")]
    Unprocessable(Cow<'static, str>),
    /// The operation exists but not in this form; the text says which form does.
    #[error("{0}")]
    NotAllowed(Cow<'static, str>),
    /// What is asked for cannot be done with this as it is.
    #[error("{0}")]
    NotAcceptable(Cow<'static, str>),
    /// Nothing changed, because it is so already.
    #[error("304 Not Modified")]
    NotModified,
    /// Too many requests; holds the seconds to wait.
    #[error("too many requests")]
    RateLimited(u64),
    /// The operation took longer than it may.
    #[error("the operation took too long")]
    TimedOut,
    /// Others changed the same things at the same time, in a way that the database could not put in order; nothing was done.
    #[error("the resource was changed concurrently; retry the request")]
    Busy,
    /// A failure of ours. The source is for the log only.
    #[error("internal error: {0}")]
    Internal(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// What is wrong with a token that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenFault {
    /// Its date has passed.
    #[error("Token is expired. You can either do re-authorization or token refresh.")]
    Expired,
    /// It was revoked.
    #[error("Token was revoked. You have to re-authorize from the user.")]
    Revoked,
    /// It impersonates, and the instance has that switched off.
    #[error("Token is an impersonation token but impersonation was disabled.")]
    ImpersonationDisabled,
}

/// What of a provisioning request makes no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProvisioningFault {
    /// The filter of a list.
    Filter,
    /// The path of a change.
    Path,
    /// The kind of a change.
    Syntax,
    /// A value.
    Value,
}

impl Error {
    /// A plain 403.
    #[must_use]
    pub fn forbidden() -> Self {
        Self::Forbidden(None)
    }

    /// A 403 with its reason.
    pub fn forbidden_because(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Forbidden(Some(reason.into()))
    }

    /// The named kind of thing is not there (`Project` -> `404 Project Not Found`).
    pub fn not_found(kind: impl Into<Cow<'static, str>>) -> Self {
        Self::NotFound(kind.into())
    }

    /// One attribute breaks one rule.
    pub fn attribute(name: impl Into<Cow<'static, str>>, text: impl Into<Cow<'static, str>>) -> Self {
        Self::InvalidAttributes(BTreeMap::from([(name.into(), vec![text.into()])]))
    }

    /// One parameter fault.
    pub fn parameter(text: impl Into<String>) -> Self {
        Self::InvalidParameters(vec![text.into()])
    }

    /// A provisioning request makes no sense.
    pub fn unprovisionable(fault: ProvisioningFault, text: impl Into<Cow<'static, str>>) -> Self {
        Self::Unprovisionable {
            fault,
            text: text.into(),
        }
    }

    /// Nothing is to change: none of these parameters was sent, and at least one has to be.
    pub fn nothing_sent(names: &[&str]) -> Self {
        Self::parameter(format!(
            "{} are missing, at least one parameter must be provided",
            names.join(", ")
        ))
    }

    /// Wraps a failure of ours.
    pub fn internal(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Internal(cause.into())
    }
}
