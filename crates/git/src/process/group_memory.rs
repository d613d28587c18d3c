//! Memory of a program and its children.

use std::fs;

/// Maximum number of processes that are counted.
const MAX_PROCESSES: usize = 64;

/// Returns the private memory of a process and its descendants in bytes.
pub(super) fn private_bytes(id: u32) -> u64 {
    let mut pending = vec![id];
    let mut counted = 0;
    let mut bytes = 0;
    while let Some(id) = pending.pop() {
        counted += 1;
        if counted > MAX_PROCESSES {
            break;
        }
        // A process may end meanwhile.
        let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        bytes += kilobytes.unwrap_or_default() << 10;
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        pending.extend(
            children
                .split_whitespace()
                .filter_map(|child| child.parse::<u32>().ok()),
        );
    }
    bytes
}
