//! Those who add to a project, one at a time.

use sea_orm::DatabaseTransaction;
use storage::entities::projects;

use crate::error::{Error, Result};

/// Lets nobody else add to a project, or change what belongs to it, until the transaction ends. So the last of what there may
/// be is made once, and numbers have no gaps.
///
/// # Errors
/// 404 when the project went away.
pub(in crate::services) async fn hold(transaction: &DatabaseTransaction, project_id: i64) -> Result<()> {
    let there = projects::hold(transaction, project_id).await?;
    there.map(drop).ok_or_else(|| Error::not_found("Project"))
}
