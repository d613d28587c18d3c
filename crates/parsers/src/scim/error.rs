//! Errors of SCIM requests.

use std::borrow::Cow;

/// Part of a SCIM request that is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScimErrorType {
    /// The filter of a list, or of the path of an operation.
    Filter,
    /// The path of an operation.
    Path,
    /// The kind of an operation.
    Syntax,
    /// A value.
    Value,
    /// The change of an attribute that cannot be changed in this way.
    Mutability,
    /// The missing target of an operation.
    Target,
}

/// Error of a SCIM request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct ScimError {
    /// The invalid part.
    pub fault: ScimErrorType,
    /// Message for the caller.
    pub text: Cow<'static, str>,
}

impl ScimError {
    /// Returns an error with a message for the caller.
    pub fn new(fault: ScimErrorType, text: impl Into<Cow<'static, str>>) -> Self {
        Self {
            fault,
            text: text.into(),
        }
    }
}
