//! Settings of the memory allocator of the server, which is that of glibc (ADR 51).
//!
//! With another C library, the functions of this package do nothing.

use std::io;
use std::thread;
use std::time::Duration;

/// Allocations of this size and more are returned to the system as soon as they are freed, in bytes. By default, glibc
/// raises this limit to 32 MiB after the first large allocation was freed, and keeps up to 64 MiB for each of its arenas.
const MMAP_THRESHOLD: i32 = 1 << 20;
/// Free memory at the end of an arena above which it is returned to the system at once, in bytes.
const TRIM_THRESHOLD: i32 = 4 << 20;
/// Interval in which the memory of the process is compared.
const INTERVAL: Duration = Duration::from_secs(1);
/// Growth of the memory of the process after which freed pages are returned, in pages of 4 KiB.
const GROWTH_PAGES: u64 = 512;

/// Fixes the thresholds of the allocator. Call this function at the start of `main`.
pub fn fix_thresholds() {
    #[cfg(target_env = "gnu")]
    #[allow(unsafe_code)]
    // SAFETY: `mallopt` takes two integers, accepts any values, and locks the allocator.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MMAP_THRESHOLD);
        libc::mallopt(libc::M_TRIM_THRESHOLD, TRIM_THRESHOLD);
    }
}

/// Lets all threads of the process allocate from the same memory. Threads then wait for each other, but need less memory: by
/// default, glibc creates an arena for each thread, up to eight for each core. Call this function at the start of a process
/// that has little to do.
pub fn share_arena() {
    #[cfg(target_env = "gnu")]
    #[allow(unsafe_code)]
    // SAFETY: `mallopt` takes two integers, accepts any values, and locks the allocator.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Starts a thread that returns freed pages to the system whenever the memory of the process has grown.
///
/// Without it, the allocator keeps freed pages that lie between pages in use, such as entries of caches.
///
/// # Errors
/// Returns an error if the thread cannot be started.
pub fn return_freed_pages() -> io::Result<()> {
    if cfg!(target_env = "gnu") {
        thread::Builder::new()
            .name("allocator".to_owned())
            .spawn(trim_after_growth)?;
    }
    Ok(())
}

/// Trims the memory whenever it has grown since it was trimmed.
fn trim_after_growth() {
    let mut trimmed = 0;
    loop {
        thread::sleep(INTERVAL);
        // The file cannot be read while the process has too many open files.
        let Some(pages) = resident_pages() else { continue };
        if pages > trimmed + GROWTH_PAGES {
            trim();
            trimmed = resident_pages().unwrap_or(pages);
        } else {
            trimmed = trimmed.min(pages);
        }
    }
}

/// Returns the number of pages of the process that are in memory.
fn resident_pages() -> Option<u64> {
    let sizes = std::fs::read_to_string("/proc/self/statm").ok()?;
    sizes.split(' ').nth(1)?.parse().ok()
}

/// Returns the freed pages of all arenas to the system.
fn trim() {
    #[cfg(target_env = "gnu")]
    #[allow(unsafe_code)]
    // SAFETY: `malloc_trim` takes an integer, accepts any value, and locks each arena.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_pages_between_pages_in_use_are_returned() {
        fix_thresholds();
        let size = 64 << 10;
        // The last allocation stays in use, so the allocator cannot shrink the arena.
        let mut blocks: Vec<Vec<u8>> = (0..1_024).map(|_| vec![1; size]).collect();
        let last = blocks.pop();
        let full = resident_pages().expect("a number");
        drop(blocks);
        trim();
        let rest = resident_pages().expect("a number");
        let freed = 1_023 * (size as u64 / 4_096);
        assert!(full - rest > freed / 2, "{full} pages, then {rest}");
        drop(last);
    }
}
