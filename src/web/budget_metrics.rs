//! Metrics of the budgets (`docs/LIMITS.md`) and of the disk. Their values are read when the metrics are requested.

use domain::kernel::Backend;
use domain::kernel::budget_report;
use domain::operations::disk_space::DiskSpace;

const LIMIT: &str = "holdfast_budget_limit";
const USED: &str = "holdfast_budget_used";
const FREE_DISK: &str = "holdfast_disk_free_bytes";
const TOTAL_DISK: &str = "holdfast_disk_size_bytes";
const REJECTIONS: &str = "holdfast_budget_rejections_total";

/// Describes the metrics.
pub fn describe() {
    metrics::describe_gauge!(LIMIT, "Limit of a budget for a scope; 0 is unlimited.");
    metrics::describe_gauge!(
        USED,
        "Amount of a budget that all requests of this process use now."
    );
    metrics::describe_gauge!(
        FREE_DISK,
        "Free space of the disk with the data directory, or with the repositories if it has less."
    );
    metrics::describe_gauge!(TOTAL_DISK, "Size of that disk.");
    metrics::describe_counter!(
        REJECTIONS,
        "Requests that were refused because they exceeded a limit of a budget."
    );
    metrics::describe_histogram!(
        "holdfast_request_database_seconds",
        "Time of the statements of a request, for requests that used the database."
    );
    metrics::describe_histogram!(
        "holdfast_git_cpu_seconds",
        "Processor time of each Git program that has ended, with its children."
    );
    metrics::describe_counter!(
        "holdfast_received_bytes_total",
        "Bytes of request bodies that were received."
    );
}

/// Sets the metrics to the current values.
pub fn set(backend: &Backend) {
    for budget in budget_report::report(backend) {
        if let Some(used) = budget.used {
            metrics::gauge!(USED, "budget" => budget.name).set(number(used));
        }
        for limit in budget.limits {
            let (name, scope) = (budget.name, limit.scope.name());
            metrics::gauge!(LIMIT, "budget" => name, "scope" => scope).set(number(limit.limit));
            let rejections = metrics::counter!(REJECTIONS, "budget" => name, "scope" => scope);
            match limit.refused {
                Some(refused) => rejections.absolute(refused),
                // Counted where it happens; shown from the start.
                None => rejections.increment(0),
            }
        }
    }
}

/// Sets the metrics of the disk.
pub fn set_disk_space(space: DiskSpace) {
    metrics::gauge!(FREE_DISK).set(number(space.free));
    metrics::gauge!(TOTAL_DISK).set(number(space.total));
}

/// Returns the value of a gauge. Limits above 2^53 lose their last digits.
fn number(value: u64) -> f64 {
    value as f64
}
