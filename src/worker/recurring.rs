//! Recurring work. Every node does it, so every step must be safe to run twice at the same time.

use std::collections::HashSet;
use std::time::Duration;

use chrono::TimeDelta;
use domain::accounts::uploads;
use domain::audit;
use domain::code::fetch_statistics;
use domain::code::ref_updates::{self, AbandonedUpdates};
use domain::delivery::pipeline_schedules;
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
use tokio::time::{MissedTickBehavior, interval};
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
pub async fn run_recurring(backend: Backend, stop: CancellationToken) {
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut schedules = interval(SCHEDULES);
    schedules.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut collections = interval(COLLECTIONS);
    collections.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut clock = ObservedClock {
        watch: ClockWatch::new(scheduling_time()),
        // The clock may have been set back while the server was stopped.
        was_set_back: true,
    };
    let mut reported = HashSet::new();
    loop {
        let done = tokio::select! {
            () = stop.cancelled() => return,
            _ = schedules.tick() => run_schedules(&backend, &mut clock).await,
            _ = collections.tick() => collect(&backend).await,
            _ = ticks.tick() => {
                allow_statements_of(STATEMENT_TIMEOUT, once(&backend, &mut clock, &mut reported)).await
            }
        };
        if let Err(error) = done {
            tracing::error!(%error, "recurring task failed");
        }
    }
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
    /// Records changes of the clock.
    fn observe(&mut self) -> &ClockWatch {
        let change = self.watch.change(scheduling_time());
        self.was_set_back |= change.is_some_and(|change| change < TimeDelta::zero());
        &self.watch
    }
}

async fn run_schedules(backend: &Backend, clock: &mut ObservedClock) -> Result<()> {
    clock.observe();
    if clock.was_set_back {
        let corrected = pipeline_schedules::correct_times(backend).await?;
        if corrected > 0 {
            tracing::warn!(corrected, "corrected the times of pipeline schedules");
        }
        clock.was_set_back = false;
    }
    pull_mirrors::enqueue_due(backend).await?;
    pipeline_schedules::enqueue_due(backend).await.map(drop)
}

async fn collect(backend: &Backend) -> Result<()> {
    let db = backend.database.write();
    enqueue(db, &CollectRegistryGarbage {})
        .await
        .map_err(Error::internal)?;
    enqueue(db, &CollectPackageGarbage {})
        .await
        .map_err(Error::internal)
}

/// Does most of the work. `reported` contains the IDs of the ref updates whose failed recovery was logged.
async fn once(backend: &Backend, clock: &mut ObservedClock, reported: &mut HashSet<i64>) -> Result<()> {
    // A push may be in progress although it is old by a clock that was set forward.
    let longest = ref_updates::ABANDONED_AFTER.to_std().unwrap_or_default();
    let time = clock.observe().lease_time(now(), longest);
    let abandoned = AbandonedUpdates::OldAt(time);
    let finished = ref_updates::recover_repeatedly(backend, abandoned, reported).await?;
    if finished > 0 {
        tracing::warn!(finished, "recovered ref updates of a stopped node");
    }
    let purged = purge_dead(backend.database.write(), now() - DEAD_JOBS_KEPT).await?;
    if purged > 0 {
        tracing::info!(purged, "removed old failed jobs");
    }
    let swept = uploads::sweep(backend).await?;
    if swept > 0 {
        tracing::info!(swept, "removed abandoned uploads");
    }
    let swept = transfers::sweep(backend).await?;
    if swept > 0 {
        tracing::info!(swept, "removed expired group export archives");
    }
    let swept = merge_requests::sweep_versions(backend).await?;
    if swept > 0 {
        tracing::info!(swept, "enqueued jobs for versions of merge requests");
    }
    let swept = fetch_statistics::sweep(backend).await?;
    if swept > 0 {
        tracing::info!(swept, "removed old numbers of fetches");
    }
    let swept = log::sweep(backend).await?;
    if swept > 0 {
        tracing::info!(swept, "removed old webhook deliveries");
    }
    let retention = settings::get(backend).await?.audit_event_retention_days;
    let swept = audit::retention::sweep(backend, retention).await?;
    if swept > 0 {
        tracing::info!(swept, "removed old audit events");
    }
    cleanup::enqueue_due(backend).await?;
    expiration_policies::enqueue_due(backend).await?;
    enqueue(backend.database.write(), &SweepExpiredAccess {})
        .await
        .map_err(Error::internal)
}
