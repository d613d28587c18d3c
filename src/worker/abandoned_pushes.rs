//! Recurring removal of what killed servers left in the system's directory for temporary files.

use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// Interval of the passes. The first one begins at once.
const PERIOD: Duration = Duration::from_secs(24 * 60 * 60);

/// Removes the directories of pushes whose servers were killed, repeatedly until `stop`. Each server does this, because only
/// processes on the same machine can access the directories.
pub async fn remove_abandoned_pushes(stop: CancellationToken) {
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        match tokio::task::spawn_blocking(git::remove_abandoned_push_directories).await {
            Ok(Ok(0)) => {}
            Ok(Ok(removed)) => tracing::info!(removed, "removed the directories of abandoned pushes"),
            Ok(Err(error)) => tracing::error!(%error, "failed to read the directory for temporary files"),
            Err(error) => tracing::error!(%error, "failed to remove the directories of abandoned pushes"),
        }
    }
}
