//! Nullable attributes of request bodies.

use domain::kernel::patch::Patch;

use contract::MaybeUndefined;

/// Converts a nullable attribute of a request body to a change.
pub trait IntoPatch<T> {
    /// Keeps the attribute if it was not sent, and clears it if it is null.
    fn into_patch(self) -> Patch<T>;
}

impl<T> IntoPatch<T> for MaybeUndefined<T> {
    fn into_patch(self) -> Patch<T> {
        match self {
            Self::Undefined => Patch::Keep,
            Self::Null => Patch::Clear,
            Self::Value(value) => Patch::Set(value),
        }
    }
}
