//! Names of the metrics that this package records. The server describes them (`src/observability/table.rs`).

/// Histogram of the processor time of programs in seconds, by program.
pub const GIT_CPU_SECONDS: &str = "holdfast_git_cpu_seconds";
/// Histogram of the time in seconds that programs ran, by kind.
pub const GIT_SECONDS: &str = "holdfast_git_seconds";
/// Counter of programs that ended, by kind and result.
pub const GIT_PROGRAMS: &str = "holdfast_git_programs_total";
