//! The time of rows, which a test server can freeze, and the detection that the clock of the system was set forward or back.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use chrono::{DateTime, SubsecRound, TimeDelta, Utc};

/// Value of [`FROZEN`] while the clock runs.
const RUNNING: i64 = i64::MIN;

/// The time at which the clock is frozen, in microseconds since 1970. Only `holdfast test-server` freezes it.
static FROZEN: AtomicI64 = AtomicI64::new(RUNNING);
/// Difference between the scheduling time and the time of the system, in microseconds.
static SHIFT: AtomicI64 = AtomicI64::new(0);

/// Returns the time of rows and of commits in microseconds, which both databases store without loss.
#[must_use]
pub fn now() -> DateTime<Utc> {
    frozen().unwrap_or_else(|| Utc::now().trunc_subsecs(6))
}

/// Returns the time for leases, delays of jobs and limits of attempts. Equals [`now`], but also advances while the clock is
/// frozen: otherwise a failed job would never be retried.
#[must_use]
pub fn scheduling_time() -> DateTime<Utc> {
    let shift = TimeDelta::microseconds(SHIFT.load(Ordering::Relaxed));
    let time = Utc::now().trunc_subsecs(6);
    time.checked_add_signed(shift).unwrap_or(time)
}

/// Returns the time at which the clock is frozen.
#[must_use]
pub fn frozen() -> Option<DateTime<Utc>> {
    match FROZEN.load(Ordering::Relaxed) {
        RUNNING => None,
        time => DateTime::from_timestamp_micros(time),
    }
}

/// Freezes the clock of this process at a time, or lets it run. The scheduling time continues from there.
pub fn freeze(time: Option<DateTime<Utc>>) {
    let shift = time.map_or(0, |time| (time - Utc::now()).num_microseconds().unwrap_or(0));
    SHIFT.store(shift, Ordering::Relaxed);
    FROZEN.store(
        time.map_or(RUNNING, |time| time.timestamp_micros()),
        Ordering::Relaxed,
    );
}

/// Difference from which a change of the clock matters. NTP corrects smaller errors gradually.
const TOLERANCE: TimeDelta = TimeDelta::seconds(2);

/// Compares the clock of the system with the monotonic clock, which no administrator can set. It stops while a machine is
/// suspended, so this counts as setting the clock forward.
#[derive(Debug)]
pub struct ClockWatch {
    time: DateTime<Utc>,
    instant: Instant,
    /// The latest change forward, and when it was observed.
    forward: Option<(TimeDelta, Instant)>,
}

impl ClockWatch {
    /// Starts to observe the clock, which shows `now`.
    #[must_use]
    pub fn new(now: DateTime<Utc>) -> Self {
        Self {
            time: now,
            instant: Instant::now(),
            forward: None,
        }
    }

    /// Returns by how much the clock was set since the last call, negative if it was set back.
    pub fn change(&mut self, now: DateTime<Utc>) -> Option<TimeDelta> {
        let passed = TimeDelta::from_std(self.instant.elapsed()).unwrap_or(TimeDelta::MAX);
        let change = now - self.time - passed;
        (self.time, self.instant) = (now, Instant::now());
        if change.abs() < TOLERANCE {
            return None;
        }
        self.forward = (change > TimeDelta::zero()).then_some((change, self.instant));
        Some(change)
    }

    /// Returns the time with which the expiry of leases is compared. For `lease` after the clock was set forward, this is
    /// the time without the change: living processes need that long to renew their leases.
    #[must_use]
    pub fn lease_time(&self, now: DateTime<Utc>, lease: Duration) -> DateTime<Utc> {
        match self.forward {
            Some((change, observed)) if observed.elapsed() < lease => now - change,
            _ => now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes_of_the_clock_are_detected_in_both_directions() {
        let start = Utc::now();
        let mut watch = ClockWatch::new(start);
        assert_eq!(watch.change(start + TimeDelta::seconds(1)), None);
        let hours = TimeDelta::hours(3);
        let change = watch.change(start + hours).unwrap();
        assert!((change - hours).abs() < TOLERANCE, "{change}");
        let lease = Duration::from_secs(3600);
        let leases = watch.lease_time(start + hours, lease);
        assert!((leases - start).abs() < TOLERANCE, "{leases}");
        assert_eq!(watch.lease_time(start + hours, Duration::ZERO), start + hours);
        let change = watch.change(start).unwrap();
        assert!((change + hours).abs() < TOLERANCE, "{change}");
        assert_eq!(watch.lease_time(start, lease), start);
        assert_eq!(watch.change(start), None);
    }
    harness::tests![changes_of_the_clock_are_detected_in_both_directions];
}
