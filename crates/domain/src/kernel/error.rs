//! Errors of services in terms of the domain.
//!
//! Each variant corresponds to a rule of `docs/API-DESIGN.md`. The server maps it to a response. Internal causes
//! are in [`Error::Internal`]; they are logged once and never sent.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Display;

use parsers::scim::ScimError;
use storage::{Fault, error_chain, exhausted_files, fault, record_exhausted_files};

pub use parsers::scim::ScimErrorType;

/// Result of a service function.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Reason why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Missing or unknown credentials.
    #[error("authentication required")]
    Unauthorized,
    /// A token that expired, was revoked or is disabled.
    #[error("invalid token: {0}")]
    InvalidToken(TokenFault),
    /// The token's scopes do not cover the operation; contains the accepted scopes.
    #[error("insufficient scope")]
    InsufficientScope(Vec<&'static str>),
    /// The caller lacks permission; the optional text is the reason.
    #[error("permission denied")]
    Forbidden(Option<Cow<'static, str>>),
    /// The resource does not exist or is not visible to the caller; contains its kind, such as `Project`.
    #[error("{0} not found")]
    NotFound(Cow<'static, str>),
    /// The caller has nothing that the request could revoke.
    #[error("nothing to revoke")]
    NothingToRevoke,
    /// The resource does not exist or has expired.
    #[error("not found or expired")]
    NotFoundOrExpired,
    /// Parameters violate the contract; contains every fault of the request.
    #[error("{}", .0.texts.join(", "))]
    InvalidParameters(ParameterFaults),
    /// A domain rule rejects the whole request.
    #[error("{0}")]
    Rejected(Cow<'static, str>),
    /// Domain rules reject attributes: attribute -> texts.
    #[error("attributes are invalid")]
    InvalidAttributes(BTreeMap<Cow<'static, str>, Vec<Cow<'static, str>>>),
    /// A cherry-pick or revert failed.
    #[error("{message}")]
    PickFailed {
        /// Message for the caller.
        message: Cow<'static, str>,
        /// `empty` or `conflict`.
        code: &'static str,
    },
    /// An invalid SCIM request.
    #[error("{text}")]
    InvalidScimRequest {
        /// Kind of the error.
        fault: ScimErrorType,
        /// Message for the caller.
        text: Cow<'static, str>,
    },
    /// The resource to create already exists.
    #[error("{0}")]
    Conflict(Cow<'static, str>),
    /// A setting of the instance or an option of the server refuses the request.
    #[error("{error} (setting: {setting})")]
    BySetting {
        /// Name of the setting or option.
        setting: &'static str,
        /// The error without the name.
        error: Box<Error>,
    },
    /// Another operation has locked the repository.
    #[error("the repository is locked")]
    ResourceLocked,
    /// The resource changed after the time given by the caller.
    #[error("the resource was modified after the given time")]
    PreconditionFailed,
    /// The request exceeds the size limit of the operation.
    #[error("the content is too large")]
    TooLarge,
    /// A file is too large for a JSON response, or for the project; contains the reason and what to do.
    #[error("{0}")]
    FileTooLarge(String),
    /// The request is well formed but cannot be processed.
    #[error("{0}")]
    Unprocessable(Cow<'static, str>),
    /// The operation is not available, or not in this form; the optional text names the supported form.
    #[error("{}", .0.as_deref().unwrap_or("operation not allowed"))]
    NotAllowed(Option<Cow<'static, str>>),
    /// The resource does not support the operation in its current state.
    #[error("{0}")]
    NotAcceptable(Cow<'static, str>),
    /// Nothing changed, because the resource already has the requested state.
    #[error("nothing changed")]
    NotModified,
    /// Too many requests; contains the number of seconds to wait.
    #[error("too many requests")]
    RateLimited(u64),
    /// The operation exceeded its time limit.
    #[error("the operation took too long")]
    TimedOut,
    /// Too many Git operations are in progress; nothing was changed.
    #[error("too many Git operations are in progress; retry the request later")]
    Busy,
    /// Too many requests use the database; nothing was changed.
    #[error("too many requests use the database; retry the request later")]
    DatabaseBusy,
    /// The database rolled back because of a conflict with concurrent requests; nothing was changed.
    #[error("the resource was changed concurrently; retry the request")]
    Contention,
    /// The server, the client address or the user has too much data in transfer (see
    /// [`budgets`](crate::kernel::budgets)); nothing was changed.
    #[error("too much data is in transfer; retry the request later")]
    Overloaded,
    /// No space is left on a disk of the server.
    #[error("no space is left on the disk of the server")]
    StorageFull,
    /// A file system of the server is read-only.
    #[error("the disk of the server is read-only")]
    StorageReadOnly,
    /// A disk of the server has an error.
    #[error("the disk of the server has failed")]
    StorageFailed,
    /// The server has too many open files.
    #[error("the server has too many open files; retry the request later")]
    TooManyFiles,
    /// The database cannot be reached, or restarts. A change may have been stored if the connection was lost during its
    /// commit.
    #[error("the database is not available; retry the request later")]
    DatabaseUnavailable,
    /// An internal failure. The source is only for the log.
    #[error("internal error: {0}")]
    Internal(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Faults of the parameters of a request.
#[derive(Debug, Default)]
pub struct ParameterFaults {
    /// The texts, in declared order of the parameters.
    pub texts: Vec<String>,
    /// Allowed values of the parameters that have another value: a list such as `asc, desc`, or a range such as
    /// `1 to 100`.
    pub allowed_values: BTreeMap<String, String>,
}

impl ParameterFaults {
    /// Adds the fault of a parameter whose value is not among the allowed ones.
    pub fn add_not_allowed(&mut self, name: &str, allowed: impl IntoIterator<Item: Display>) {
        let allowed: Vec<String> = allowed.into_iter().map(|value| value.to_string()).collect();
        self.texts.push(format!("{name} does not have a valid value"));
        self.allowed_values.insert(name.to_owned(), allowed.join(", "));
    }
}

impl From<Vec<String>> for ParameterFaults {
    fn from(texts: Vec<String>) -> Self {
        Self {
            texts,
            ..Self::default()
        }
    }
}

/// Reason why a known token is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenFault {
    /// Expired.
    #[error("Token is expired. You can either do re-authorization or token refresh.")]
    Expired,
    /// Revoked.
    #[error("Token was revoked. You have to re-authorize from the user.")]
    Revoked,
    /// An impersonation token while the instance has impersonation disabled.
    #[error("Token is an impersonation token but impersonation was disabled.")]
    ImpersonationDisabled,
}

impl From<ScimError> for Error {
    fn from(error: ScimError) -> Self {
        Self::InvalidScimRequest {
            fault: error.fault,
            text: error.text,
        }
    }
}

impl Error {
    /// Returns [`Error::Forbidden`] without a reason.
    #[must_use]
    pub fn forbidden() -> Self {
        Self::Forbidden(None)
    }

    /// Returns [`Error::Forbidden`] with a reason.
    pub fn forbidden_because(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Forbidden(Some(reason.into()))
    }

    /// Returns [`Error::NotFound`] for a kind of resource, such as `Project`.
    pub fn not_found(kind: impl Into<Cow<'static, str>>) -> Self {
        Self::NotFound(kind.into())
    }

    /// Returns an error for one attribute.
    pub fn attribute(name: impl Into<Cow<'static, str>>, text: impl Into<Cow<'static, str>>) -> Self {
        Self::InvalidAttributes(BTreeMap::from([(name.into(), vec![text.into()])]))
    }

    /// Returns an error for one parameter.
    pub fn parameter(text: impl Into<String>) -> Self {
        Self::InvalidParameters(vec![text.into()].into())
    }

    /// Returns an error for a parameter whose value is not among the allowed ones.
    pub fn value_not_allowed(name: &str, allowed: impl IntoIterator<Item: Display>) -> Self {
        let mut faults = ParameterFaults::default();
        faults.add_not_allowed(name, allowed);
        Self::InvalidParameters(faults)
    }

    /// Returns an error for a SCIM request.
    pub fn invalid_scim_request(fault: ScimErrorType, text: impl Into<Cow<'static, str>>) -> Self {
        Self::InvalidScimRequest {
            fault,
            text: text.into(),
        }
    }

    /// Returns an error for an update without parameters: at least one of `names` is required.
    pub fn no_parameters(names: &[&str]) -> Self {
        Self::parameter(format!(
            "{} are missing, at least one parameter must be provided",
            names.join(", ")
        ))
    }

    /// Wraps an internal failure. A fault of the machine or the database becomes [`Error::StorageFull`],
    /// [`Error::StorageReadOnly`], [`Error::StorageFailed`], [`Error::TooManyFiles`] or [`Error::DatabaseUnavailable`], and
    /// is logged: an operator must act, and the response does not name the cause.
    pub fn internal(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        let cause = cause.into();
        let of_git = cause.downcast_ref::<git::Error>().and_then(fault_of_git);
        let known = fault(cause.as_ref()).or(of_git);
        if known == Some(Fault::TooManyFiles) {
            // Errors that hide this cause follow.
            record_exhausted_files();
        }
        let found = known.or_else(exhausted_files);
        let text = || error_chain(cause.as_ref());
        match found {
            Some(Fault::DiskFull) => {
                tracing::error!(cause = %text(), "no space is left on a disk");
                Self::StorageFull
            }
            Some(Fault::ReadOnlyDisk) => {
                tracing::error!(cause = %text(), "a disk is read-only");
                Self::StorageReadOnly
            }
            Some(Fault::FailedDisk) => {
                tracing::error!(cause = %text(), "a disk has failed");
                Self::StorageFailed
            }
            Some(Fault::TooManyFiles) => {
                tracing::error!(cause = %text(), "too many files are open");
                Self::TooManyFiles
            }
            Some(Fault::DatabaseUnavailable) => {
                tracing::warn!(cause = %text(), "the database is not available");
                Self::DatabaseUnavailable
            }
            None => Self::Internal(cause),
        }
    }

    /// Adds the name of the setting of the instance or the option of the server that refuses the request.
    #[must_use]
    pub fn because_of(self, setting: &'static str) -> Self {
        Self::BySetting {
            setting,
            error: Box::new(self),
        }
    }

    /// Returns the name of the setting that refuses the request, if one does, and the error without the name.
    #[must_use]
    pub fn split_setting(&self) -> (Option<&'static str>, &Self) {
        match self {
            Self::BySetting { setting, error } => (Some(*setting), error.as_ref()),
            other => (None, other),
        }
    }

    /// Returns whether the caller lacks permission, also if a setting is the reason.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        matches!(self.split_setting().1, Self::Forbidden(_))
    }

    /// Returns whether the database could not run a statement, independent of the statement.
    #[must_use]
    pub fn is_of_database(&self) -> bool {
        matches!(
            self,
            Self::Contention | Self::DatabaseBusy | Self::DatabaseUnavailable
        )
    }

    /// Returns whether the same request can succeed later although nothing that it depends on changes: the machine, the
    /// database or other requests caused the error. Otherwise, the request was refused.
    #[must_use]
    pub fn can_succeed_later(&self) -> bool {
        // Every variant is named, so that a new one is classified.
        match self.split_setting().1 {
            Self::Internal(_)
            | Self::StorageFull
            | Self::StorageReadOnly
            | Self::StorageFailed
            | Self::TooManyFiles
            | Self::DatabaseUnavailable
            | Self::TimedOut
            | Self::ResourceLocked
            | Self::RateLimited(_)
            | Self::Busy
            | Self::DatabaseBusy
            | Self::Contention
            | Self::Overloaded => true,
            Self::Unauthorized
            | Self::InvalidToken(_)
            | Self::InsufficientScope(_)
            | Self::Forbidden(_)
            | Self::NotFound(_)
            | Self::NothingToRevoke
            | Self::NotFoundOrExpired
            | Self::InvalidParameters(_)
            | Self::Rejected(_)
            | Self::InvalidAttributes(_)
            | Self::PickFailed { .. }
            | Self::InvalidScimRequest { .. }
            | Self::Conflict(_)
            | Self::BySetting { .. }
            | Self::PreconditionFailed
            | Self::TooLarge
            | Self::FileTooLarge(_)
            | Self::Unprocessable(_)
            | Self::NotAllowed(_)
            | Self::NotAcceptable(_)
            | Self::NotModified => false,
        }
    }
}

/// Returns the fault of the machine that an error of Git reports.
fn fault_of_git(error: &git::Error) -> Option<Fault> {
    match error.system_fault()? {
        git::SystemFault::DiskFull => Some(Fault::DiskFull),
        git::SystemFault::ReadOnlyDisk => Some(Fault::ReadOnlyDisk),
        git::SystemFault::FailedDisk => Some(Fault::FailedDisk),
        git::SystemFault::TooManyFiles => Some(Fault::TooManyFiles),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_other_requests_cause_can_succeed_later() {
        for error in [
            Error::ResourceLocked,
            Error::RateLimited(1),
            Error::RateLimited(1).because_of("git_processor_seconds_per_client"),
            Error::TimedOut,
            Error::Busy,
            Error::DatabaseBusy,
            Error::Contention,
            Error::Overloaded,
            Error::StorageFull,
            Error::StorageReadOnly,
            Error::StorageFailed,
            Error::TooManyFiles,
            Error::DatabaseUnavailable,
            Error::Internal("fault".into()),
        ] {
            assert!(error.can_succeed_later(), "{error:?}");
        }
    }

    #[test]
    fn refused_requests_cannot_succeed_later() {
        for error in [
            Error::Unauthorized,
            Error::forbidden(),
            Error::forbidden().because_of("setting"),
            Error::not_found("Project"),
            Error::NotAllowed(None),
            Error::NotAcceptable("Branch cannot be merged".into()),
            Error::Conflict("SHA does not match".into()),
            Error::Rejected("The push rule refuses the commit".into()),
            Error::attribute("base", "is invalid"),
            Error::Unprocessable("The file is invalid".into()),
        ] {
            assert!(!error.can_succeed_later(), "{error:?}");
        }
    }
}
