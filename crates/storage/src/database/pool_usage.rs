//! Use of the connection pools, for metrics.

use std::time::{Duration, Instant};

use sea_orm::{DatabaseBackend, DbErr};

use super::{Connections, Database};
use crate::metric_names::{
    DATABASE_ACQUIRE_FAILURES, DATABASE_STATEMENT_FAILURES, DATABASE_STATEMENT_SECONDS, DATABASE_WAIT_SECONDS,
};

/// Number of connections of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolUsage {
    /// `read` or `write` with SQLite; `shared` with PostgreSQL.
    pub name: &'static str,
    /// Connections that are open, in use or not.
    pub open: u64,
    /// Open connections that are not in use.
    pub idle: u64,
    /// Maximum number of connections.
    pub limit: u64,
}

impl Database {
    /// Returns the use of each pool now.
    #[must_use]
    pub fn pool_usage(&self) -> Vec<PoolUsage> {
        match self.backend() {
            DatabaseBackend::Sqlite => vec![self.reader.usage("read"), self.writer.usage("write")],
            _ => vec![self.writer.usage("shared")],
        }
    }
}

impl Connections {
    fn usage(&self, name: &'static str) -> PoolUsage {
        let (open, idle, limit) = match self.get_database_backend() {
            DatabaseBackend::Sqlite => {
                let pool = self.pool.get_sqlite_connection_pool();
                (pool.size(), pool.num_idle(), pool.options().get_max_connections())
            }
            _ => {
                let pool = self.pool.get_postgres_connection_pool();
                (pool.size(), pool.num_idle(), pool.options().get_max_connections())
            }
        };
        // The two numbers are read one after the other.
        let idle = u64::try_from(idle).unwrap_or(u64::MAX).min(open.into());
        PoolUsage {
            name,
            open: open.into(),
            idle,
            limit: limit.into(),
        }
    }
}

tokio::task_local! {
    /// When the current single statement began to wait for a connection.
    static REQUESTED: Instant;
}

/// Runs a single statement and measures how long it waits for a connection.
pub(super) async fn measure<T>(statement: impl Future<Output = Result<T, DbErr>>) -> Result<T, DbErr> {
    counted(REQUESTED.scope(Instant::now(), statement).await)
}

/// Counts the error of a missing connection, and returns the result.
pub(super) fn counted<T>(result: Result<T, DbErr>) -> Result<T, DbErr> {
    if matches!(result, Err(DbErr::ConnectionAcquire(_))) {
        metrics::counter!(DATABASE_ACQUIRE_FAILURES).increment(1);
    }
    result
}

/// Records that a transaction waited for a connection.
pub(super) fn record_wait(wait: Duration) {
    metrics::histogram!(DATABASE_WAIT_SECONDS).record(wait.as_secs_f64());
}

/// Records a statement that has ended. The connection was received when it began.
pub(super) fn record_statement(elapsed: Duration, failed: bool) {
    let _ = REQUESTED.try_with(|requested| record_wait(requested.elapsed().saturating_sub(elapsed)));
    metrics::histogram!(DATABASE_STATEMENT_SECONDS).record(elapsed.as_secs_f64());
    if failed {
        metrics::counter!(DATABASE_STATEMENT_FAILURES).increment(1);
    }
}
