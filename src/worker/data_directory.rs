//! Recurring restriction of the data directory to its owner.

use std::path::PathBuf;
use std::time::Duration;

use domain::operations::data_directory;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// Interval of the passes. The first one begins at once: it corrects the files of earlier versions.
const PERIOD: Duration = Duration::from_secs(24 * 60 * 60);

/// Restricts everything in the data directory to its owner, repeatedly until `stop`. Runs apart from other recurring
/// work, because a pass over many files takes minutes.
pub async fn restrict_data_directory(directory: PathBuf, stop: CancellationToken) {
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let pass = async {
            ticks.tick().await;
            data_directory::correct(&directory).await
        };
        let found = tokio::select! {
            () = stop.cancelled() => return,
            found = pass => found,
        };
        match found {
            Ok(found) if found.accessible == 0 => {}
            Ok(found) if found.failed == 0 => {
                let (corrected, examples) = (found.accessible, found.examples);
                tracing::warn!(corrected, ?examples, "restricted files to their owner");
            }
            Ok(found) => {
                let (failed, examples) = (found.failed, found.examples);
                tracing::error!(failed, ?examples, "failed to restrict files to their owner");
            }
            Err(error) => tracing::error!(%error, "failed to read the data directory"),
        }
    }
}
