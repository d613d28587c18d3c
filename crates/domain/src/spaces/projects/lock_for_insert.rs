//! Serializes additions to a project.

use sea_orm::DatabaseTransaction;
use storage::entities::projects;

use crate::kernel::error::{Error, Result};

/// Locks a project against concurrent additions and changes of its resources until the transaction ends.
/// Limits are therefore exact, and IIDs have no gaps. Returns the current row.
///
/// # Errors
/// Returns `NotFound` if the project was deleted.
pub(crate) async fn lock_for_insert(
    transaction: &DatabaseTransaction,
    project_id: i64,
) -> Result<projects::Model> {
    let project = projects::lock_for_insert(transaction, project_id).await?;
    project.ok_or_else(|| Error::not_found("Project"))
}
