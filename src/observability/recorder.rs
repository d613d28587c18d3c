//! The recorder of counters and histograms of this process.

use std::sync::OnceLock;
use std::time::Duration;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::table::{METRICS, MetricType};

/// Interval of adding recorded values to the histograms. Until then each value needs memory.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// The recorder, once it is installed.
static HANDLE: OnceLock<Option<PrometheusHandle>> = OnceLock::new();

/// Returns the recorder of this process, installed on first use. `None` if the process has another recorder.
pub fn recorder() -> Option<&'static PrometheusHandle> {
    HANDLE.get_or_init(install).as_ref()
}

fn install() -> Option<PrometheusHandle> {
    let mut builder = PrometheusBuilder::new();
    for metric in METRICS {
        if metric.metric_type == MetricType::Histogram {
            let name = Matcher::Full(metric.name.to_owned());
            builder = builder.set_buckets_for_metric(name, metric.buckets).ok()?;
        }
    }
    let handle = builder.install_recorder().ok()?;
    for metric in METRICS {
        let has_labels = !metric.labels.is_empty();
        match metric.metric_type {
            MetricType::Counter => metrics::describe_counter!(metric.name, metric.help),
            MetricType::Histogram => metrics::describe_histogram!(metric.name, metric.help),
            // Written by the scrape.
            MetricType::Gauge => {}
        }
        // Shown from the start, so that the first increase is visible as an increase.
        match metric.metric_type {
            MetricType::Counter if !has_labels && metric.name.starts_with("holdfast_") => {
                metrics::counter!(metric.name).increment(0);
            }
            MetricType::Histogram if !has_labels => drop(metrics::histogram!(metric.name)),
            _ => {}
        }
    }
    Some(handle)
}

/// Adds recorded values to the histograms until `stop`, once the recorder is installed.
pub async fn run_upkeep(stop: CancellationToken) {
    let mut ticks = interval(UPKEEP_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        // Recording continues meanwhile; with thousands of series it takes milliseconds.
        if let Some(Some(handle)) = HANDLE.get() {
            let _ = tokio::task::spawn_blocking(|| handle.run_upkeep()).await;
        }
    }
}
