//! Figures of the process, from the system.

use std::time::{SystemTime, UNIX_EPOCH};

use procfs::ProcResult;
use procfs::process::Process;

use super::exposition::{Exposition, number};
use super::table::{
    PROCESS_CPU, PROCESS_MAX_FILES, PROCESS_OPEN_FILES, PROCESS_RESIDENT, PROCESS_START, PROCESS_THREADS,
    PROCESS_UPTIME, PROCESS_VIRTUAL,
};

/// Figures of this process.
struct ProcessFigures {
    cpu_seconds: f64,
    resident_bytes: u64,
    virtual_bytes: u64,
    open_files: u64,
    threads: u64,
    /// Since the Unix epoch.
    start_seconds: f64,
}

impl ProcessFigures {
    /// Reads the figures from `/proc`, which takes less than a millisecond.
    fn read() -> ProcResult<Self> {
        let process = Process::myself()?;
        let stat = process.stat()?;
        let ticks = number(procfs::ticks_per_second());
        Ok(Self {
            cpu_seconds: number(stat.utime + stat.stime) / ticks,
            resident_bytes: stat.rss.saturating_mul(procfs::page_size()),
            virtual_bytes: stat.vsize,
            open_files: process.fd_count()? as u64,
            threads: stat.num_threads.unsigned_abs(),
            start_seconds: number(procfs::boot_time_secs()?) + number(stat.starttime) / ticks,
        })
    }
}

/// Adds the metrics of the process. Returns false if they cannot be read, for example because too many files are open.
pub(super) fn add(exposition: &mut Exposition) -> bool {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    exposition.value(&PROCESS_MAX_FILES, limit.map(number));
    let figures = match ProcessFigures::read() {
        Ok(figures) => figures,
        Err(error) => {
            tracing::debug!(%error, "failed to read the figures of the process");
            return false;
        }
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let uptime = (now.as_secs_f64() - figures.start_seconds).max(0.0);
    exposition.value(&PROCESS_CPU, Some(figures.cpu_seconds));
    exposition.value(&PROCESS_RESIDENT, Some(number(figures.resident_bytes)));
    exposition.value(&PROCESS_VIRTUAL, Some(number(figures.virtual_bytes)));
    exposition.value(&PROCESS_OPEN_FILES, Some(number(figures.open_files)));
    exposition.value(&PROCESS_THREADS, Some(number(figures.threads)));
    exposition.value(&PROCESS_START, Some(figures.start_seconds));
    exposition.value(&PROCESS_UPTIME, Some(uptime));
    true
}
