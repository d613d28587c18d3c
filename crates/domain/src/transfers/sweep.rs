//! Removal of expired archives, and of the archives of deleted groups.

use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::transfers::{exports, imports};

/// Removes expired archives. Returns their number. Imports are swept even if the archive of an export cannot be
/// deleted.
///
/// # Errors
/// Returns an error if the storage or the database fails.
pub async fn sweep(backend: &Backend) -> Result<u64> {
    let of_exports = exports::sweep(backend).await;
    let of_imports = imports::sweep(backend).await;
    if let (Err(_), Err(error)) = (&of_exports, &of_imports) {
        tracing::error!(%error, "failed to remove archives of group imports");
    }
    Ok(of_exports? + of_imports?)
}

/// Removes the existing archives of a deleted group. The sweep removes the rest.
///
/// # Errors
/// Returns an error if the storage or the database fails.
pub async fn delete_archives(backend: &Backend, group_id: i64) -> Result<()> {
    exports::delete_archives(backend, group_id).await?;
    imports::delete_archive(backend, group_id).await
}
