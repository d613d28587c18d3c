//! Keys, limits and errors of stored archives.

use crate::kernel::error::Error;

/// Maximum archives that one sweep removes.
pub(super) const MAX_SWEPT: u64 = 1_000;

/// Returns an unguessable part of an object key.
pub(super) fn secret() -> String {
    hex::encode(rand::random::<[u8; 16]>())
}

/// Wraps a failure of the thread that reads or writes an archive.
pub(super) fn thread_error(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::internal(error)
}
