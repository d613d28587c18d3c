//! Processor time of programs.

use std::fmt;
use std::fs;
use std::time::Duration;

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use tokio::signal::unix::{SignalKind, signal};

use crate::metric_names::GIT_CPU_SECONDS;

/// Clock ticks per second in `/proc`, which is the same for all architectures that the server supports.
const TICKS_PER_SECOND: u64 = 100;

/// Waits until a child has ended. It remains a zombie, whose processor time can still be read.
pub(super) async fn ended(id: Pid) {
    // Created before the first check, so that no signal is missed.
    let Ok(mut children) = signal(SignalKind::child()) else {
        return;
    };
    let without_reaping = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    while let Ok(None) = waitid(WaitId::Pid(id), without_reaping) {
        if children.recv().await.is_none() {
            return;
        }
    }
}

/// Maximum number of running children whose time is read. Programs of the server have a few.
const MAX_CHILDREN: usize = 64;

/// Processor time that the client of a repository may use for programs.
pub trait ProcessorBudget: fmt::Debug + Send + Sync {
    /// Returns the time until the client can start a program, or `None` if it can start one now.
    fn wait(&self) -> Option<Duration>;

    /// Counts the processor time of a program that has ended.
    fn charge(&self, used: Duration);
}

/// Records the time that a child and its children have used so far, and charges it to a client. The child must not be
/// reaped.
pub(super) fn record(program: &'static str, id: Pid, budget: Option<&dyn ProcessorBudget>) {
    let Some(used) = used_by_all(id) else { return };
    metrics::histogram!(GIT_CPU_SECONDS, "program" => program).record(used.as_secs_f64());
    if let Some(budget) = budget {
        budget.charge(used);
    }
}

/// Returns the time of a process, of its children, and of their children. A program that is stopped has not waited for
/// its children, which do most of the work of transfers.
fn used_by_all(id: Pid) -> Option<Duration> {
    let mut total = used(id.as_raw_nonzero().get())?;
    let mut found = children(id.as_raw_nonzero().get());
    let mut next = 0;
    while let Some(child) = found.get(next).copied().filter(|_| next < MAX_CHILDREN) {
        total += used(child).unwrap_or_default();
        found.extend(children(child));
        next += 1;
    }
    Some(total)
}

/// Returns the children of a process that were not reaped. A kernel without this list returns none.
fn children(id: i32) -> Vec<i32> {
    let listed = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
    listed
        .split_ascii_whitespace()
        .filter_map(|id| id.parse().ok())
        .collect()
}

/// Returns the time of a process, and of the children for which it waited.
fn used(id: i32) -> Option<Duration> {
    let directory = format!("/proc/{id}");
    let stat = fs::read_to_string(format!("{directory}/stat")).ok()?;
    let ticks = ticks(&stat)?;
    // Exact, but only of the main thread.
    let exact = fs::read_to_string(format!("{directory}/schedstat")).ok();
    let exact = exact.and_then(|text| text.split(' ').next()?.parse().ok());
    let own = Duration::from_nanos(exact.unwrap_or_default()).max(seconds(ticks.own));
    Some(own + seconds(ticks.children))
}

fn seconds(ticks: u64) -> Duration {
    Duration::from_secs(ticks) / u32::try_from(TICKS_PER_SECOND).unwrap_or(1)
}

/// Clock ticks of a process.
#[derive(Debug, PartialEq, Eq)]
struct ProcessTicks {
    own: u64,
    /// Of the children for which the process waited.
    children: u64,
}

/// Parses `/proc/ID/stat`. The name of the program, in parentheses, may contain spaces.
fn ticks(stat: &str) -> Option<ProcessTicks> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut ticks = fields
        .split(' ')
        .skip(11)
        .take(4)
        .map(|field| field.parse::<u64>());
    let mut sum = || Some(ticks.next()?.ok()? + ticks.next()?.ok()?);
    Some(ProcessTicks {
        own: sum()?,
        children: sum()?,
    })
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[test]
    fn ticks_follow_the_name_of_the_program() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 100 200 0 0 3 4 50 60 20 0 1 0 12345 1 2";
        let expected = ProcessTicks {
            own: 7,
            children: 110,
        };
        assert_eq!(ticks(stat), Some(expected));
        assert_eq!(ticks("7 (a) S 1 7"), None);
    }

    #[tokio::test]
    async fn time_of_ended_child_and_its_children_is_known() {
        let script = "sh -c 'i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done'; exit 0";
        let mut child = tokio::process::Command::new("sh")
            .args(["-c", script])
            .spawn()
            .unwrap();
        let id = Pid::from_raw(child.id().unwrap().try_into().unwrap()).unwrap();
        ended(id).await;
        let stat = fs::read_to_string(format!("/proc/{}/stat", id.as_raw_nonzero())).unwrap();
        assert!(stat.contains(") Z "), "{stat}");
        let raw = id.as_raw_nonzero().get();
        assert!(used(raw).unwrap() >= Duration::from_millis(10), "{stat}");
        assert!(ticks(&stat).unwrap().children > 0, "{stat}");
        assert!(child.wait().await.unwrap().success());
        assert_eq!((used(raw), used_by_all(id)), (None, None));
    }

    #[tokio::test]
    async fn time_of_running_children_is_included() {
        let script = "sh -c 'i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; echo; sleep 600' & wait";
        let mut child = tokio::process::Command::new("sh")
            .args(["-c", script])
            .process_group(0)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let id = Pid::from_raw(child.id().unwrap().try_into().unwrap()).unwrap();
        // The line that the inner shell prints after its work.
        let mut line = [0; 1];
        child.stdout.take().unwrap().read_exact(&mut line).await.unwrap();
        let raw = id.as_raw_nonzero().get();
        assert!(!children(raw).is_empty());
        let (all, outer) = (used_by_all(id).unwrap(), used(raw).unwrap());
        rustix::process::kill_process_group(id, rustix::process::Signal::KILL).unwrap();
        child.wait().await.unwrap();
        assert!(all >= outer + Duration::from_millis(10), "{all:?} {outer:?}");
    }
}
