//! Memory of the git processes of a server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::process::{Process, descendants};

/// Time between two samples.
const INTERVAL: Duration = Duration::from_millis(10);

/// Peaks of the private memory of all processes together, and of the processes of each name, in kilobytes.
type Peaks = (u64, HashMap<String, u64>);

/// Samples the private memory of the git processes of a server until it is dropped.
pub struct MemoryWatch {
    task: tokio::task::JoinHandle<()>,
    peaks: Arc<Mutex<Peaks>>,
}

impl MemoryWatch {
    /// Starts to sample the processes of a server.
    pub fn new(server: &Process) -> Self {
        let peaks = Arc::<Mutex<Peaks>>::default();
        let (seen, id) = (Arc::clone(&peaks), server.id());
        let task = tokio::spawn(async move {
            loop {
                note(&seen, &descendants(id));
                tokio::time::sleep(INTERVAL).await;
            }
        });
        Self { task, peaks }
    }

    /// Stops and returns the peaks.
    pub fn stop(self) -> Peaks {
        self.task.abort();
        self.peaks.lock().unwrap().clone()
    }
}

/// Records the private memory of processes. Mapped pack files do not count: the system can reclaim them.
fn note(peaks: &Mutex<Peaks>, processes: &[(u32, String)]) {
    let mut total = 0;
    let mut peaks = peaks.lock().unwrap();
    for (id, command) in processes {
        let own = private_memory(*id).unwrap_or_default();
        total += own;
        let name = command.split(' ').find(|word| word.contains("pack")).unwrap_or("git").to_owned();
        let peak = peaks.1.entry(name).or_default();
        *peak = own.max(*peak);
    }
    peaks.0 = peaks.0.max(total);
}

/// Returns the private memory of a process in kilobytes, or `None` if the process has ended.
fn private_memory(id: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.split_whitespace().next()?.parse().ok()
}
