//! Number and time of requests by operation.

use std::collections::HashMap;
use std::sync::{LazyLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use metrics::{Counter, Histogram};

use super::table::{REQUEST_SECONDS, REQUESTS};

/// Status of a request whose client left before the response began, as in the access log.
const CLIENT_LEFT: u16 = 499;

/// Labels of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct SeriesKey {
    operation: &'static str,
    method: &'static str,
    status: u16,
}

/// The metrics of a series.
struct Series {
    count: Counter,
    seconds: Histogram,
}

/// The series so far. A request of a known series needs no allocation.
static SERIES: LazyLock<RwLock<HashMap<SeriesKey, Series>>> = LazyLock::new(RwLock::default);

/// The measurement of a request. If it is dropped before [`Self::finish`], the client left.
pub struct RequestMeasurement<F: Fn() -> &'static str> {
    started: Instant,
    method: &'static str,
    operation: F,
    is_finished: bool,
}

impl<F: Fn() -> &'static str> RequestMeasurement<F> {
    /// Starts a measurement. `operation` returns the operation ID or the kind of the endpoint when the request has ended. The
    /// method and the operation must have a limited number of values.
    pub fn start(method: &'static str, operation: F) -> Self {
        Self {
            started: Instant::now(),
            method,
            operation,
            is_finished: false,
        }
    }

    /// Records the status of the response.
    pub fn finish(mut self, status: u16) {
        self.is_finished = true;
        self.record(status);
    }

    fn record(&self, status: u16) {
        let key = SeriesKey {
            operation: (self.operation)(),
            method: self.method,
            status,
        };
        record(key, self.started.elapsed());
    }
}

impl<F: Fn() -> &'static str> Drop for RequestMeasurement<F> {
    fn drop(&mut self) {
        if !self.is_finished {
            self.record(CLIENT_LEFT);
        }
    }
}

fn record(key: SeriesKey, elapsed: Duration) {
    let known = SERIES.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(series) = known.get(&key) {
        series.record(elapsed);
        return;
    }
    drop(known);
    let mut known = SERIES.write().unwrap_or_else(PoisonError::into_inner);
    known
        .entry(key)
        .or_insert_with(|| Series::of(key))
        .record(elapsed);
}

impl Series {
    fn of(key: SeriesKey) -> Self {
        let SeriesKey {
            operation,
            method,
            status,
        } = key;
        let class = status_class(status);
        let status = status.to_string();
        Self {
            count: metrics::counter!(REQUESTS.name, "operation" => operation, "method" => method, "status" => status),
            seconds: metrics::histogram!(REQUEST_SECONDS.name, "operation" => operation, "status_class" => class),
        }
    }

    fn record(&self, elapsed: Duration) {
        self.count.increment(1);
        self.seconds.record(elapsed.as_secs_f64());
    }
}

fn status_class(status: u16) -> &'static str {
    match status / 100 {
        1 => "1xx",
        2 => "2xx",
        3 => "3xx",
        4 => "4xx",
        _ => "5xx",
    }
}
