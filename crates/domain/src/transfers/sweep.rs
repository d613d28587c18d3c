//! Removal of expired archives, and of the archives of deleted groups.

use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::transfers::{exports, imports};

/// Removes expired archives. Returns their number.
///
/// # Errors
/// Returns an error if the storage or the database fails.
pub async fn sweep(backend: &Backend) -> Result<usize> {
    Ok(exports::sweep(backend).await? + imports::sweep(backend).await?)
}

/// Removes the existing archives of a deleted group. The sweep removes the rest.
///
/// # Errors
/// Returns an error if the storage or the database fails.
pub async fn delete_archives(backend: &Backend, group_id: i64) -> Result<()> {
    exports::delete_archives(backend, group_id).await?;
    imports::delete_archive(backend, group_id).await
}
