//! Durations of tests.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Environment variable that enables the list of the slowest tests. Its value is the number of tests, or 1 for 20.
const ENABLED: &str = "HOLDFAST_TEST_TIMINGS";
/// Default number of printed tests.
const PRINTED: usize = 20;

static DURATIONS: Mutex<Vec<(Duration, String)>> = Mutex::new(Vec::new());

/// Runs a test and records its duration.
pub(crate) fn measure<T>(name: &str, run: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let outcome = run();
    let mut durations = DURATIONS.lock().unwrap_or_else(PoisonError::into_inner);
    durations.push((started.elapsed(), name.to_owned()));
    outcome
}

/// Prints the slowest tests, if the environment enables it.
#[expect(clippy::print_stdout, reason = "part of the test report")]
pub(crate) fn print() {
    let Some(printed) = std::env::var(ENABLED)
        .ok()
        .and_then(|text| text.parse::<usize>().ok())
    else {
        return;
    };
    let printed = if printed == 1 { PRINTED } else { printed };
    let mut durations = DURATIONS.lock().unwrap_or_else(PoisonError::into_inner);
    durations.sort_by(|one, other| other.cmp(one));
    let total: Duration = durations.iter().map(|(duration, _)| *duration).sum();
    println!(
        "slowest of {} tests, {:.1} s in total:",
        durations.len(),
        total.as_secs_f64()
    );
    for (duration, name) in durations.iter().take(printed) {
        println!("{:>8.3} s  {name}", duration.as_secs_f64());
    }
    println!();
}
