//! Processes of the system.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long a process may take to stop before it is killed.
const PATIENCE: Duration = Duration::from_secs(10);

/// Stops a process whose command line contains `part`, and waits until it is gone.
pub(crate) fn stop(id: i32, part: &Path) {
    let Some(pid) = Pid::from_raw(id) else { return };
    for signal in [Signal::QUIT, Signal::KILL] {
        // Fails if the process is gone already.
        let is_running = runs(id, part) && kill_process(pid, signal).is_ok();
        let started = Instant::now();
        while is_running && runs(id, part) && started.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Returns whether this process runs and its command line contains `part`. The ID may have been reused.
fn runs(id: i32, part: &Path) -> bool {
    let command = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
    let part = part.as_os_str().as_encoded_bytes();
    command.windows(part.len()).any(|window| window == part)
}
