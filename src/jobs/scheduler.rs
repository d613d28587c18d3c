//! What recurs without anybody asking for it. Every node does it; all of it bears being done twice at a time.

use std::time::Duration;

use chrono::TimeDelta;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::sweep_expired_access::SweepExpiredAccess;
use super::{enqueue, purge_dead};
use crate::entities::now;
use crate::error::{Error, Result};
use crate::services::hooks::log;
use crate::services::{Backend, references, uploads};

/// How often.
const PERIOD: Duration = Duration::from_secs(5 * 60);
/// How long jobs that were given up are kept for the operator.
const DEAD_JOBS_KEPT: TimeDelta = TimeDelta::days(30);

/// Does what recurs until `stop`. Faults are logged, and it is tried again the next time.
pub async fn run(backend: Backend, stop: CancellationToken) {
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        if let Err(error) = once(&backend).await {
            tracing::error!(%error, "recurring work failed");
        }
    }
}

async fn once(backend: &Backend) -> Result<()> {
    let finished = references::recover(backend, false).await?;
    if finished > 0 {
        tracing::warn!(
            finished,
            "recorded changes of references that a lost server had announced"
        );
    }
    let purged = purge_dead(backend.database.write(), now() - DEAD_JOBS_KEPT).await?;
    if purged > 0 {
        tracing::info!(purged, "removed jobs that were given up long ago");
    }
    let swept = uploads::sweep(backend).await?;
    if swept > 0 {
        tracing::info!(swept, "removed uploads that never ended");
    }
    let swept = log::sweep(backend).await?;
    if swept > 0 {
        tracing::info!(swept, "removed old deliveries of webhooks");
    }
    enqueue(backend.database.write(), &SweepExpiredAccess {})
        .await
        .map_err(Error::internal)
}
