//! The table of all metrics. Code that records a metric uses its name from here, or from the package that records it.

use domain::packages::metric_names as package_names;
use git::metric_names as git_names;
use storage::metric_names as storage_names;

/// Type of a metric in the Prometheus format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricType {
    /// A number that only increases while the process runs.
    Counter,
    /// A number that changes in both directions.
    Gauge,
    /// Counts of values by their size.
    Histogram,
}

impl MetricType {
    /// Returns the name in the Prometheus format.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// Unit of a metric. Its name contains the unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricUnit {
    /// A number of things, or a number without a unit.
    Number,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
}

/// A metric.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// The name.
    pub name: &'static str,
    /// The type.
    pub metric_type: MetricType,
    /// The unit.
    pub unit: MetricUnit,
    /// Names of the labels of each value.
    pub labels: &'static [&'static str],
    /// Text that describes the metric, without markup.
    pub help: &'static str,
    /// Upper bounds of the buckets of a histogram; empty for other types.
    pub buckets: &'static [f64],
}

impl Metric {
    const fn counter(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Self {
        Self {
            name,
            metric_type: MetricType::Counter,
            unit: MetricUnit::Number,
            labels,
            help,
            buckets: &[],
        }
    }

    const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Self {
        Self {
            metric_type: MetricType::Gauge,
            ..Self::counter(name, labels, help)
        }
    }

    /// Returns a histogram of seconds.
    const fn histogram(
        name: &'static str,
        labels: &'static [&'static str],
        buckets: &'static [f64],
        help: &'static str,
    ) -> Self {
        Self {
            metric_type: MetricType::Histogram,
            unit: MetricUnit::Seconds,
            buckets,
            ..Self::counter(name, labels, help)
        }
    }

    const fn bytes(self) -> Self {
        Self {
            unit: MetricUnit::Bytes,
            ..self
        }
    }

    const fn seconds(self) -> Self {
        Self {
            unit: MetricUnit::Seconds,
            ..self
        }
    }
}

/// Buckets of requests, in seconds.
const REQUEST_BUCKETS: &[f64] = &[0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0];
/// Buckets of work in the database, in seconds.
const DATABASE_BUCKETS: &[f64] = &[0.0002, 0.001, 0.0025, 0.01, 0.025, 0.1, 0.25, 1.0, 5.0, 30.0];
/// Buckets of Git programs, in seconds.
const GIT_BUCKETS: &[f64] = &[0.005, 0.02, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1_800.0];
/// Buckets of jobs, in seconds.
const JOB_BUCKETS: &[f64] = &[0.01, 0.05, 0.25, 1.0, 5.0, 15.0, 60.0, 300.0, 1_800.0, 3_600.0];

/// Requests.
pub const REQUESTS: Metric = Metric::counter(
    "holdfast_requests_total",
    &["operation", "method", "status"],
    "Requests whose response began, by status. The status is 499 if the client left before.",
);
/// Time until the response begins.
pub const REQUEST_SECONDS: Metric = Metric::histogram(
    "holdfast_request_seconds",
    &["operation", "status_class"],
    REQUEST_BUCKETS,
    "Time from the head of a request to the head of its response.",
);
/// Bytes of request bodies.
pub const RECEIVED_BYTES: Metric = Metric::counter(
    "holdfast_received_bytes_total",
    &[],
    "Bytes of request bodies that were received.",
)
.bytes();
/// Responses with a status that the contract does not have.
pub const UNDOCUMENTED_STATUS: Metric = Metric::counter(
    "holdfast_undocumented_status_total",
    &["operation"],
    "Responses with a status that the API document does not list.",
);

/// Entries of the response cache.
pub const CACHE_ENTRIES: Metric = Metric::gauge(
    "holdfast_response_cache_entries",
    &[],
    "Responses in the response cache.",
);
/// Size of the response cache.
pub const CACHE_BYTES: Metric = Metric::gauge(
    "holdfast_response_cache_bytes",
    &[],
    "Size of the responses in the response cache.",
)
.bytes();
/// Maximum size of the response cache.
pub const CACHE_LIMIT: Metric = Metric::gauge(
    "holdfast_response_cache_limit_bytes",
    &[],
    "Maximum size of the response cache.",
)
.bytes();
/// Requests that were answered from the cache.
pub const CACHE_HITS: Metric = Metric::counter(
    "holdfast_response_cache_hits_total",
    &[],
    "Requests whose response was in the response cache.",
);
/// Cacheable requests that were not answered from the cache.
pub const CACHE_MISSES: Metric = Metric::counter(
    "holdfast_response_cache_misses_total",
    &[],
    "Cacheable requests whose response was not in the response cache.",
);

/// Limits of the budgets.
pub const BUDGET_LIMIT: Metric = Metric::gauge(
    "holdfast_budget_limit",
    &["budget", "scope"],
    "Limit of a budget for a scope; 0 is unlimited.",
);
/// Use of the budgets.
pub const BUDGET_USED: Metric = Metric::gauge(
    "holdfast_budget_used",
    &["budget"],
    "Amount of a budget that all requests of this process use now.",
);
/// Requests that a budget refused.
pub const BUDGET_REJECTIONS: Metric = Metric::counter(
    "holdfast_budget_rejections_total",
    &["budget", "scope"],
    "Requests that were refused because they exceeded a limit of a budget.",
);

/// Open database connections.
pub const CONNECTIONS_OPEN: Metric = Metric::gauge(
    "holdfast_database_connections_open",
    &["pool"],
    "Open database connections, in use or not.",
);
/// Idle database connections.
pub const CONNECTIONS_IDLE: Metric = Metric::gauge(
    "holdfast_database_connections_idle",
    &["pool"],
    "Open database connections that are not in use.",
);
/// Maximum number of database connections.
pub const CONNECTIONS_LIMIT: Metric = Metric::gauge(
    "holdfast_database_connections_limit",
    &["pool"],
    "Maximum number of database connections.",
);
/// Time until a connection is free.
pub const DATABASE_WAIT: Metric = Metric::histogram(
    storage_names::DATABASE_WAIT_SECONDS,
    &[],
    DATABASE_BUCKETS,
    "Time until a statement received a connection, or until a transaction began, without the wait for the share of its client.",
);
/// Statements without a connection.
pub const DATABASE_ACQUIRE_FAILURES: Metric = Metric::counter(
    storage_names::DATABASE_ACQUIRE_FAILURES,
    &[],
    "Statements and transactions that received no connection in time.",
);
/// Time of statements.
pub const STATEMENT_SECONDS: Metric = Metric::histogram(
    storage_names::DATABASE_STATEMENT_SECONDS,
    &[],
    DATABASE_BUCKETS,
    "Time of each database statement, without the wait for a connection.",
);
/// Statements with an error.
pub const STATEMENT_FAILURES: Metric = Metric::counter(
    storage_names::DATABASE_STATEMENT_FAILURES,
    &[],
    "Database statements that returned an error, also errors that the server expects, such as a duplicate name.",
);
/// Time of all statements of a request.
pub const REQUEST_DATABASE_SECONDS: Metric = Metric::histogram(
    "holdfast_request_database_seconds",
    &[],
    DATABASE_BUCKETS,
    "Time of the statements of a request, for requests that used the database.",
);

/// Time of Git programs.
pub const GIT_SECONDS: Metric = Metric::histogram(
    git_names::GIT_SECONDS,
    &["kind"],
    GIT_BUCKETS,
    "Time that each Git program ran. A fetch or push includes the transfer.",
);
/// Git programs that ended.
pub const GIT_PROGRAMS: Metric = Metric::counter(
    git_names::GIT_PROGRAMS,
    &["kind", "result"],
    "Git programs that ended. The result is success, failure, or stopped if the server ended the program early.",
);
/// Processor time of Git programs.
pub const GIT_CPU_SECONDS: Metric = Metric::histogram(
    git_names::GIT_CPU_SECONDS,
    &["program"],
    GIT_BUCKETS,
    "Processor time of each Git program that has ended or was stopped, with its children.",
);

/// Jobs in the queue.
pub const JOBS: Metric = Metric::gauge(
    "holdfast_jobs",
    &["kind", "state"],
    "Jobs in the database by state: waiting, scheduled for later, running, or failed permanently. The same on every node.",
);
/// Age of the oldest job.
pub const JOB_OLDEST: Metric = Metric::gauge(
    "holdfast_job_oldest_seconds",
    &["kind"],
    "Time for which the oldest waiting job has been due. The same on every node.",
)
.seconds();
/// Attempts at jobs.
pub const JOB_ATTEMPTS: Metric = Metric::counter(
    storage_names::JOB_ATTEMPTS,
    &["kind", "result"],
    "Attempts at jobs. The result is success, retry, postponed if the job could not run yet, failure for the last attempt, \
     or lost if another node took over.",
);
/// Time of attempts at jobs.
pub const JOB_SECONDS: Metric = Metric::histogram(
    storage_names::JOB_SECONDS,
    &["kind"],
    JOB_BUCKETS,
    "Time of each attempt at a job.",
);

/// Number of repositories.
pub const REPOSITORIES: Metric = Metric::gauge(
    "holdfast_repositories",
    &[],
    "Repositories of projects. The same on every node; at most a minute old.",
);
/// Total size of the repositories.
pub const REPOSITORY_BYTES: Metric = Metric::gauge(
    "holdfast_repositories_bytes",
    &[],
    "Total size of the repositories of projects, measured by jobs after changes; at most a minute old.",
)
.bytes();
/// Size of the largest repository.
pub const LARGEST_REPOSITORY: Metric = Metric::gauge(
    "holdfast_largest_repository_bytes",
    &[],
    "Size of the largest repository; at most a minute old.",
)
.bytes();
/// Stored package files.
pub const PACKAGE_UPLOADS: Metric = Metric::counter(
    package_names::UPLOADS,
    &["format"],
    "Files that were stored in packages.",
);
/// Bytes of stored package files.
pub const PACKAGE_UPLOAD_BYTES: Metric = Metric::counter(
    package_names::UPLOAD_BYTES,
    &["format"],
    "Bytes of the files that were stored in packages.",
)
.bytes();
/// Downloads of package files.
pub const PACKAGE_DOWNLOADS: Metric = Metric::counter(
    package_names::DOWNLOADS,
    &["format"],
    "Downloads of package files. Responses without content, such as status 304, are not counted.",
);
/// Bytes of downloads of package files.
pub const PACKAGE_DOWNLOAD_BYTES: Metric = Metric::counter(
    package_names::DOWNLOAD_BYTES,
    &["format"],
    "Bytes of package files that were read for downloads.",
)
.bytes();
/// Number of packages.
pub const PACKAGES: Metric = Metric::gauge(
    "holdfast_packages",
    &["format"],
    "Packages of projects; each version is one package. The same on every node; at most a minute old.",
);
/// Number of package files.
pub const PACKAGE_FILES: Metric = Metric::gauge(
    "holdfast_package_files",
    &["format"],
    "Files of packages. The same on every node; at most a minute old.",
);
/// Total size of the package files.
pub const PACKAGE_BYTES: Metric = Metric::gauge(
    "holdfast_package_files_bytes",
    &["format"],
    "Total size of the files of packages. The same on every node; at most a minute old.",
)
.bytes();
/// Free disk space.
pub const DISK_FREE: Metric = Metric::gauge(
    "holdfast_disk_free_bytes",
    &[],
    "Free space of the disk with the data directory, or with the repositories if it has less.",
)
.bytes();
/// Size of the disk.
pub const DISK_SIZE: Metric = Metric::gauge("holdfast_disk_size_bytes", &[], "Size of that disk.").bytes();
/// Free space below which the server reports low space.
pub const DISK_LOW: Metric = Metric::gauge(
    "holdfast_disk_low_bytes",
    &[],
    "Free space below which the server reports low space (low_disk_bytes).",
)
.bytes();

/// Result of the readiness checks.
pub const READY: Metric = Metric::gauge(
    "holdfast_ready",
    &["check"],
    "Whether a check of readiness succeeds: 1 or 0. The checks are database, repositories and disk.",
);
/// Parts of the scrape without values.
pub const SCRAPE_ERRORS: Metric = Metric::gauge(
    "holdfast_scrape_errors",
    &["part"],
    "Whether a part of the metrics is missing because it could not be read: 1 or 0.",
);
/// Time of the scrape.
pub const SCRAPE_SECONDS: Metric = Metric::gauge(
    "holdfast_scrape_seconds",
    &[],
    "Time in which this server collected the metrics.",
)
.seconds();
/// Version of the server.
pub const BUILD_INFO: Metric = Metric::gauge(
    "holdfast_build_info",
    &["version"],
    "Always 1; the label is the version of the server.",
);

/// Processor time of the server.
pub const PROCESS_CPU: Metric = Metric::counter(
    "process_cpu_seconds_total",
    &[],
    "Processor time of the server, without Git programs.",
)
.seconds();
/// Resident memory of the server.
pub const PROCESS_RESIDENT: Metric = Metric::gauge(
    "process_resident_memory_bytes",
    &[],
    "Resident memory of the server, without Git programs.",
)
.bytes();
/// Virtual memory of the server.
pub const PROCESS_VIRTUAL: Metric = Metric::gauge(
    "process_virtual_memory_bytes",
    &[],
    "Virtual memory of the server.",
)
.bytes();
/// Open files of the server.
pub const PROCESS_OPEN_FILES: Metric = Metric::gauge(
    "process_open_fds",
    &[],
    "Open files, sockets and pipes of the server.",
);
/// Maximum number of open files.
pub const PROCESS_MAX_FILES: Metric = Metric::gauge(
    "process_max_fds",
    &[],
    "Maximum number of open files, sockets and pipes of the server.",
);
/// Threads of the server.
pub const PROCESS_THREADS: Metric = Metric::gauge("process_threads", &[], "Threads of the server.");
/// Start of the server.
pub const PROCESS_START: Metric = Metric::gauge(
    "process_start_time_seconds",
    &[],
    "Start of the server, in seconds since the Unix epoch.",
)
.seconds();
/// Time since the start of the server.
pub const PROCESS_UPTIME: Metric = Metric::gauge(
    "process_uptime_seconds",
    &[],
    "Time since the start of the server.",
)
.seconds();

/// All metrics, in the order of `docs/METRICS.md`.
pub const METRICS: &[Metric] = &[
    REQUESTS,
    REQUEST_SECONDS,
    RECEIVED_BYTES,
    UNDOCUMENTED_STATUS,
    CACHE_ENTRIES,
    CACHE_BYTES,
    CACHE_LIMIT,
    CACHE_HITS,
    CACHE_MISSES,
    BUDGET_LIMIT,
    BUDGET_USED,
    BUDGET_REJECTIONS,
    CONNECTIONS_OPEN,
    CONNECTIONS_IDLE,
    CONNECTIONS_LIMIT,
    DATABASE_WAIT,
    DATABASE_ACQUIRE_FAILURES,
    STATEMENT_SECONDS,
    STATEMENT_FAILURES,
    REQUEST_DATABASE_SECONDS,
    GIT_SECONDS,
    GIT_PROGRAMS,
    GIT_CPU_SECONDS,
    JOBS,
    JOB_OLDEST,
    JOB_ATTEMPTS,
    JOB_SECONDS,
    REPOSITORIES,
    REPOSITORY_BYTES,
    LARGEST_REPOSITORY,
    PACKAGE_UPLOADS,
    PACKAGE_UPLOAD_BYTES,
    PACKAGE_DOWNLOADS,
    PACKAGE_DOWNLOAD_BYTES,
    PACKAGES,
    PACKAGE_FILES,
    PACKAGE_BYTES,
    DISK_FREE,
    DISK_SIZE,
    DISK_LOW,
    READY,
    SCRAPE_ERRORS,
    SCRAPE_SECONDS,
    BUILD_INFO,
    PROCESS_CPU,
    PROCESS_RESIDENT,
    PROCESS_VIRTUAL,
    PROCESS_OPEN_FILES,
    PROCESS_MAX_FILES,
    PROCESS_THREADS,
    PROCESS_START,
    PROCESS_UPTIME,
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_follow_the_conventions_of_prometheus() {
        let mut names = BTreeSet::new();
        for metric in METRICS {
            let name = metric.name;
            assert!(names.insert(name), "{name} is listed twice");
            assert!(
                name.starts_with("holdfast_") || name.starts_with("process_"),
                "{name}"
            );
            let is_plain = |c: char| c.is_ascii_lowercase() || c == '_';
            assert!(name.chars().all(is_plain), "{name}");
            let is_counter = metric.metric_type == MetricType::Counter;
            assert_eq!(name.ends_with("_total"), is_counter, "{name}");
            let base = name.strip_suffix("_total").unwrap_or(name);
            let unit = match base {
                _ if base.ends_with("_seconds") => MetricUnit::Seconds,
                _ if base.ends_with("_bytes") => MetricUnit::Bytes,
                _ => MetricUnit::Number,
            };
            assert_eq!(metric.unit, unit, "{name}");
        }
    }

    #[test]
    fn histograms_have_ten_increasing_buckets() {
        for metric in METRICS {
            let is_histogram = metric.metric_type == MetricType::Histogram;
            assert_eq!(
                metric.buckets.len(),
                if is_histogram { 10 } else { 0 },
                "{}",
                metric.name
            );
            assert!(metric.buckets.is_sorted_by(|a, b| a < b), "{}", metric.name);
        }
    }

    #[test]
    fn help_texts_are_sentences_without_markup() {
        for metric in METRICS {
            let help = metric.help;
            assert!(help.ends_with('.') && !help.contains(['`', '|', '\n']), "{help}");
            let reserved = ["le", "quantile", "instance", "job"];
            assert!(
                metric.labels.iter().all(|label| !reserved.contains(label)),
                "{}",
                metric.name
            );
        }
    }
}
