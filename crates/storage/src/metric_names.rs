//! Names of the metrics that this package records. The server describes them (`src/observability/table.rs`).

/// Histogram of the time in seconds that statements and transactions waited for a connection.
pub const DATABASE_WAIT_SECONDS: &str = "holdfast_database_wait_seconds";
/// Counter of statements and transactions that received no connection in time.
pub const DATABASE_ACQUIRE_FAILURES: &str = "holdfast_database_acquire_failures_total";
/// Histogram of the time of statements in seconds.
pub const DATABASE_STATEMENT_SECONDS: &str = "holdfast_database_statement_seconds";
/// Counter of statements that returned an error.
pub const DATABASE_STATEMENT_FAILURES: &str = "holdfast_database_statement_failures_total";
/// Counter of attempts at jobs, by kind and result.
pub const JOB_ATTEMPTS: &str = "holdfast_job_attempts_total";
/// Histogram of the time of attempts at jobs in seconds, by kind.
pub const JOB_SECONDS: &str = "holdfast_job_seconds";
