//! Jobs of due rows, which several nodes find at the same time.

use sea_orm::{DatabaseTransaction, DbErr};

use super::{EnqueueError, Job, enqueue};
use crate::database::Database;

/// Enqueues a job in the transaction that claims its due row: `claim` changes the row so that it is not due any more,
/// or returns false. Returns false if another node has claimed the row.
///
/// # Errors
/// Returns [`EnqueueError`] if the payload cannot be serialized or a database query fails.
pub async fn enqueue_claimed<J: Job>(
    db: &Database,
    job: &J,
    claim: impl AsyncFnOnce(&DatabaseTransaction) -> Result<bool, DbErr>,
) -> Result<bool, EnqueueError> {
    db.transaction(async |transaction| {
        let is_claimed = claim(transaction).await?;
        if is_claimed {
            enqueue(transaction, job).await?;
        }
        Ok(is_claimed)
    })
    .await
}
