//! Time limit of statements on PostgreSQL: that of the connection, or a longer one for work such as jobs.

use std::time::Duration;

use sea_orm::{ConnectionTrait, DatabaseTransaction, DbErr};

tokio::task_local! {
    /// The longer limit.
    static LONGER: Duration;
}

/// Runs `work`, in which each statement may take up to `limit`, or as long as the connection allows if that is longer.
/// Has no effect on tasks that `work` spawns, and with SQLite, which cancels no statement.
pub async fn allow_statements_of<F: Future>(limit: Duration, work: F) -> F::Output {
    LONGER.scope(limit, work).await
}

/// Returns the limit of the current work if it is longer than `limit`, the one of the connection. Zero is unlimited.
pub(super) fn longer_than(limit: Duration) -> Option<Duration> {
    let longer = LONGER.try_with(|longer| *longer).ok()?;
    (!limit.is_zero() && longer > limit).then_some(longer)
}

/// Sets the limit until the end of a transaction.
///
/// # Errors
/// A database error.
pub(super) async fn set(transaction: &DatabaseTransaction, limit: Duration) -> Result<(), DbErr> {
    let statement = format!("SET LOCAL statement_timeout = {}", limit.as_millis());
    transaction.execute_unprepared(&statement).await.map(drop)
}
