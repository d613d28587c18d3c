//! What recurs without anybody asking for it. Every node does it; all of it bears being done twice at a time.

use std::time::Duration;

use chrono::TimeDelta;
use storage::entities::now;
use storage::jobs::{enqueue, purge_dead};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::collect_images::CollectImages;
use super::sweep_expired_access::SweepExpiredAccess;
use crate::error::{Error, Result};
use crate::services::hooks::log;
use crate::services::{Backend, group_transfers, pipeline_schedules, references, uploads};

/// How often most of it.
const PERIOD: Duration = Duration::from_secs(5 * 60);
/// How often it is looked for schedules of pipelines that are due; they are told to the minute.
const SCHEDULES: Duration = Duration::from_secs(10);
/// How often it is looked for what nobody needs of container images, which takes a look at all there are.
const COLLECTIONS: Duration = Duration::from_secs(60 * 60);
/// How long jobs that were given up are kept for the operator.
const DEAD_JOBS_KEPT: TimeDelta = TimeDelta::days(30);

/// Does what recurs until `stop`. Faults are logged, and it is tried again the next time.
pub async fn run(backend: Backend, stop: CancellationToken) {
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut schedules = interval(SCHEDULES);
    schedules.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut collections = interval(COLLECTIONS);
    collections.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let done = tokio::select! {
            () = stop.cancelled() => return,
            _ = schedules.tick() => pipeline_schedules::enqueue_due(&backend).await.map(drop),
            _ = collections.tick() => collect(&backend).await,
            _ = ticks.tick() => once(&backend).await,
        };
        if let Err(error) = done {
            tracing::error!(%error, "recurring task failed");
        }
    }
}

async fn collect(backend: &Backend) -> Result<()> {
    enqueue(backend.database.write(), &CollectImages {})
        .await
        .map_err(Error::internal)
}

async fn once(backend: &Backend) -> Result<()> {
    let finished = references::recover(backend, false).await?;
    if finished > 0 {
        tracing::warn!(finished, "recovered ref updates of a stopped node");
    }
    let purged = purge_dead(backend.database.write(), now() - DEAD_JOBS_KEPT).await?;
    if purged > 0 {
        tracing::info!(purged, "removed old failed jobs");
    }
    let swept = uploads::sweep(backend).await?;
    if swept > 0 {
        tracing::info!(swept, "removed unfinished uploads");
    }
    let swept = group_transfers::sweep(backend).await?;
    if swept > 0 {
        tracing::info!(swept, "removed expired group export archives");
    }
    let swept = log::sweep(backend).await?;
    if swept > 0 {
        tracing::info!(swept, "removed old webhook deliveries");
    }
    enqueue(backend.database.write(), &SweepExpiredAccess {})
        .await
        .map_err(Error::internal)
}
