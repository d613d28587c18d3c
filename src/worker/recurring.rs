//! Recurring work. Every node does it, so every step must be safe to run twice at the same time. A failed step does not
//! prevent the other ones.

use std::collections::HashSet;
use std::fmt::Display;
use std::time::Duration;

use chrono::TimeDelta;
use domain::accounts::uploads;
use domain::audit;
use domain::code::fetch_statistics;
use domain::code::ref_updates::{self, AbandonedUpdates};
use domain::delivery::pipeline_schedules;
use domain::identity::oauth;
use domain::instance::settings;
use domain::kernel::Backend;
use domain::kernel::error::{Error, Result};
use domain::mirrors::pull_mirrors::schedule as pull_mirrors;
use domain::packages::cleanup;
use domain::packages::jobs::collect_package_garbage::CollectPackageGarbage;
use domain::registry::expiration_policies;
use domain::registry::jobs::collect_registry_garbage::CollectRegistryGarbage;
use domain::review::merge_requests;
use domain::spaces::jobs::sweep_expired_access::SweepExpiredAccess;
use domain::transfers;
use domain::webhooks::log;
use storage::ClockWatch;
use storage::clock::scheduling_time;
use storage::database::allow_statements_of;
use storage::entities::now;
use storage::jobs::{enqueue, purge_dead};
use tokio::time::{Interval, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// Interval of most of the work.
const PERIOD: Duration = Duration::from_secs(5 * 60);
/// Interval of looking for due pipeline schedules and updates of pull mirrors, whose times have a resolution of one minute.
const SCHEDULES: Duration = Duration::from_secs(10);
/// Interval of the garbage collections of packages and of the container registry, which scans all its images.
const COLLECTIONS: Duration = Duration::from_secs(60 * 60);
/// Time limit of a statement of the work that sweeps tables; that of a job.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(60 * 60);
/// How long permanently failed jobs are kept for the operator.
const DEAD_JOBS_KEPT: TimeDelta = TimeDelta::days(30);

/// Runs the recurring work until `stop`. Errors are logged, and the work is retried at the next interval.
///
/// Every step can be interrupted at any point: the next start continues it. A server that stops therefore does not wait
/// for a sweep, which may take minutes.
pub async fn run_recurring(backend: Backend, stop: CancellationToken) {
    // Sweeps may take longer than the interval of schedules, so both run independently of each other.
    let all = async { tokio::join!(repeat_schedules(&backend), repeat_work(&backend)) };
    stop.run_until_cancelled(all).await;
}

/// Enqueues due jobs at their intervals, forever.
async fn repeat_schedules(backend: &Backend) {
    let mut schedules = ticks(SCHEDULES);
    let mut collections = ticks(COLLECTIONS);
    let mut clock = ObservedClock::new();
    loop {
        tokio::select! {
            _ = schedules.tick() => run_schedules(backend, &mut clock).await,
            _ = collections.tick() => collect(backend).await,
        }
    }
}

/// Does most of the work at its interval, forever.
async fn repeat_work(backend: &Backend) {
    let mut periods = ticks(PERIOD);
    let mut clock = ObservedClock::new();
    let mut reported = HashSet::new();
    loop {
        periods.tick().await;
        allow_statements_of(STATEMENT_TIMEOUT, once(backend, &mut clock, &mut reported)).await;
    }
}

/// Returns the ticks of an interval, which starts again after each run.
fn ticks(period: Duration) -> Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Enqueues the work that is due after the clock was set forward, and wakes the runner of delayed jobs.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn run_due(backend: &Backend) -> Result<()> {
    pipeline_schedules::enqueue_due(backend).await?;
    pull_mirrors::enqueue_due(backend).await?;
    cleanup::enqueue_due(backend).await?;
    expiration_policies::enqueue_due(backend).await?;
    backend
        .database
        .transaction(async |transaction| {
            enqueue(transaction, &SweepExpiredAccess {})
                .await
                .map_err(Error::internal)
        })
        .await
}

/// The clock of the system.
struct ObservedClock {
    watch: ClockWatch,
    /// Whether the times of schedules may be too late.
    was_set_back: bool,
}

impl ObservedClock {
    fn new() -> Self {
        Self {
            watch: ClockWatch::new(scheduling_time()),
            // The clock may have been set back while the server was stopped.
            was_set_back: true,
        }
    }

    /// Records changes of the clock.
    fn observe(&mut self) -> &ClockWatch {
        let change = self.watch.change(scheduling_time());
        self.was_set_back |= change.is_some_and(|change| change < TimeDelta::zero());
        &self.watch
    }
}

/// Runs a step and logs its error, so that the steps after it run in any case. Returns `None` if the step failed.
async fn step<T, E: Display>(task: &'static str, work: impl Future<Output = Result<T, E>>) -> Option<T> {
    work.await
        .inspect_err(|error| tracing::error!(%error, task, "recurring task failed"))
        .ok()
}

async fn run_schedules(backend: &Backend, clock: &mut ObservedClock) {
    clock.observe();
    if clock.was_set_back {
        let correction = pipeline_schedules::correct_times(backend);
        if let Some(corrected) = step("correct_pipeline_schedules", correction).await {
            if corrected > 0 {
                tracing::warn!(corrected, "corrected the times of pipeline schedules");
            }
            clock.was_set_back = false;
        }
    }
    step("enqueue_pull_mirrors", pull_mirrors::enqueue_due(backend)).await;
    step(
        "enqueue_pipeline_schedules",
        pipeline_schedules::enqueue_due(backend),
    )
    .await;
}

async fn collect(backend: &Backend) {
    let db = backend.database.write();
    step(
        "enqueue_registry_collection",
        enqueue(db, &CollectRegistryGarbage {}),
    )
    .await;
    step(
        "enqueue_package_collection",
        enqueue(db, &CollectPackageGarbage {}),
    )
    .await;
}

/// Does most of the work. `reported` contains the IDs of the ref updates whose failed recovery was logged.
async fn once(backend: &Backend, clock: &mut ObservedClock, reported: &mut HashSet<i64>) {
    let db = backend.database.write();
    // A push may be in progress although it is old by a clock that was set forward.
    let longest = ref_updates::ABANDONED_AFTER.to_std().unwrap_or_default();
    let time = clock.observe().lease_time(now(), longest);
    let recovery = ref_updates::recover_repeatedly(backend, AbandonedUpdates::OldAt(time), reported);
    if let Some(finished @ 1..) = step("recover_ref_updates", recovery).await {
        tracing::warn!(finished, "recovered ref updates of a stopped node");
    }
    let purge = purge_dead(db, now() - DEAD_JOBS_KEPT);
    if let Some(purged @ 1..) = step("remove_failed_jobs", purge).await {
        tracing::info!(purged, "removed old failed jobs");
    }
    if let Some(swept @ 1..) = step("remove_uploads", uploads::sweep(backend)).await {
        tracing::info!(swept, "removed abandoned uploads");
    }
    if let Some(swept @ 1..) = step("remove_group_archives", transfers::sweep(backend)).await {
        tracing::info!(swept, "removed expired group export archives");
    }
    let versions = merge_requests::sweep_versions(backend);
    if let Some(swept @ 1..) = step("enqueue_merge_request_versions", versions).await {
        tracing::info!(swept, "enqueued jobs for versions of merge requests");
    }
    if let Some(swept @ 1..) = step("remove_fetch_statistics", fetch_statistics::sweep(backend)).await {
        tracing::info!(swept, "removed old numbers of fetches");
    }
    if let Some(swept @ 1..) = step("remove_webhook_deliveries", log::sweep(backend)).await {
        tracing::info!(swept, "removed old webhook deliveries");
    }
    if let Some(swept @ 1..) = step("remove_audit_events", sweep_audit_events(backend)).await {
        tracing::info!(swept, "removed old audit events");
    }
    if let Some(swept @ 1..) = step("remove_oauth_tokens", oauth::tokens::sweep(backend)).await {
        tracing::info!(swept, "removed expired OAuth tokens");
    }
    step("enqueue_package_cleanup", cleanup::enqueue_due(backend)).await;
    step(
        "enqueue_registry_expiration",
        expiration_policies::enqueue_due(backend),
    )
    .await;
    step("enqueue_access_expiration", enqueue(db, &SweepExpiredAccess {})).await;
}

async fn sweep_audit_events(backend: &Backend) -> Result<u64> {
    let retention = settings::get(backend).await?.audit_event_retention_days;
    audit::retention::sweep(backend, retention).await
}
