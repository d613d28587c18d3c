//! Free space of the disks of the instance, which is reported before a write fails.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::kernel::Backend;

/// Space of the file system of a directory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskSpace {
    /// Space that the server can still use.
    pub free: u64,
    /// Total space.
    pub total: u64,
}

/// State of the free space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpaceState {
    /// At least the configured minimum.
    Sufficient,
    /// Less than the configured minimum.
    Low,
    /// So little that the next write may fail.
    Exhausted,
}

/// Space below which writes are expected to fail, in bytes.
const EXHAUSTED_BYTES: u64 = 1 << 20;

/// Time for which a result is used again. Clients without credentials can request it as often as they want.
const MAX_AGE: Duration = Duration::from_secs(3);
/// How long a request waits for the system, which does not answer if a network file system is not available.
const READ_TIMEOUT: Duration = Duration::from_secs(2);

impl DiskSpace {
    /// Reads the space of the file system that contains a directory. Blocks the thread for microseconds, or longer on a
    /// network file system.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be accessed.
    pub fn of(directory: &Path) -> io::Result<Self> {
        let found = rustix::fs::statvfs(directory)?;
        Ok(Self {
            free: found.f_bavail.saturating_mul(found.f_frsize),
            total: found.f_blocks.saturating_mul(found.f_frsize),
        })
    }

    /// Reads the space of the disk with the data directory, or of the disk with the repositories if that disk has less
    /// free space. Blocks the thread as [`Self::of`] does.
    ///
    /// # Errors
    /// Returns an error if a directory cannot be accessed.
    pub fn of_directories(data_dir: &Path, repositories: &Path) -> io::Result<Self> {
        let (data, repositories) = (Self::of(data_dir)?, Self::of(repositories)?);
        Ok(if repositories.free < data.free {
            repositories
        } else {
            data
        })
    }

    /// Returns the state of the free space. `low_bytes` is the configured minimum.
    #[must_use]
    pub fn state(self, low_bytes: u64) -> SpaceState {
        match self.free {
            free if free < EXHAUSTED_BYTES => SpaceState::Exhausted,
            free if free < low_bytes => SpaceState::Low,
            _ => SpaceState::Sufficient,
        }
    }
}

/// The space of the disks of an instance, read at most once every three seconds, by one thread at a time. Clones share the
/// result.
#[derive(Clone)]
pub struct DiskMonitor {
    read: Arc<dyn Fn() -> io::Result<DiskSpace> + Send + Sync>,
    max_age: Duration,
    read_timeout: Duration,
    state: Arc<Mutex<MonitorState>>,
}

#[derive(Default)]
struct MonitorState {
    /// When the latest result was read, or the system did not answer.
    latest: Option<(Instant, Option<DiskSpace>)>,
    /// The thread that reads. It remains until the system answers.
    reading: Option<JoinHandle<io::Result<DiskSpace>>>,
}

impl DiskMonitor {
    /// Creates a monitor of the disks with the data directory and the repositories.
    #[must_use]
    pub fn of_instance(backend: &Backend) -> Self {
        let data_dir = backend.instance.data_dir.clone();
        let repositories = backend.repositories.directory().to_owned();
        let read = move || DiskSpace::of_directories(&data_dir, &repositories);
        Self::new(read, MAX_AGE, READ_TIMEOUT)
    }

    fn new(
        read: impl Fn() -> io::Result<DiskSpace> + Send + Sync + 'static,
        max_age: Duration,
        read_timeout: Duration,
    ) -> Self {
        Self {
            read: Arc::new(read),
            max_age,
            read_timeout,
            state: Arc::default(),
        }
    }

    /// Returns the space of the disk with the least free space, as it was at most three seconds ago.
    ///
    /// # Errors
    /// Returns an error if a directory cannot be accessed, and `TimedOut` if the system does not answer within two seconds.
    pub async fn space(&self) -> io::Result<DiskSpace> {
        let mut state = self.state.lock().await;
        if let Some((instant, found)) = state.latest
            && instant.elapsed() < self.max_age
        {
            return found.ok_or_else(|| io::ErrorKind::TimedOut.into());
        }
        let read = Arc::clone(&self.read);
        let reading = state
            .reading
            .get_or_insert_with(|| tokio::task::spawn_blocking(move || read()));
        let Ok(done) = tokio::time::timeout(self.read_timeout, reading).await else {
            // The next requests do not wait, and start no further thread.
            state.latest = Some((Instant::now(), None));
            return Err(io::ErrorKind::TimedOut.into());
        };
        state.reading = None;
        let space = done.map_err(io::Error::other)??;
        state.latest = Some((Instant::now(), Some(space)));
        Ok(space)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const SPACE: DiskSpace = DiskSpace { free: 1, total: 2 };
    const LONG: Duration = Duration::from_secs(60);

    /// Returns a monitor that counts its reads, and the number of them.
    fn counting(
        read: impl Fn(usize) -> io::Result<DiskSpace> + Send + Sync + 'static,
        max_age: Duration,
        read_timeout: Duration,
    ) -> (DiskMonitor, Arc<AtomicUsize>) {
        let count = Arc::new(AtomicUsize::new(0));
        let reads = Arc::clone(&count);
        let counted = move || read(reads.fetch_add(1, Ordering::SeqCst));
        (DiskMonitor::new(counted, max_age, read_timeout), count)
    }

    #[tokio::test]
    async fn monitor_uses_a_result_again_until_its_maximum_age() {
        let (monitor, count) = counting(|_| Ok(SPACE), LONG, LONG);
        let all = futures_util::future::join_all((0..100).map(|_| monitor.space())).await;
        assert!(
            all.into_iter()
                .all(|space| space.is_ok_and(|space| space == SPACE))
        );
        assert_eq!(count.load(Ordering::SeqCst), 1);
        let (monitor, count) = counting(|_| Ok(SPACE), Duration::ZERO, LONG);
        for number in 1..4 {
            assert_eq!(monitor.space().await.expect("a space"), SPACE);
            assert_eq!(count.load(Ordering::SeqCst), number);
        }
    }

    #[tokio::test]
    async fn monitor_uses_one_thread_for_a_disk_that_does_not_answer() {
        let (answer, answered) = std::sync::mpsc::channel::<()>();
        let answered = std::sync::Mutex::new(answered);
        let waiting = move |_| {
            let _ = answered.lock().map(|answered| answered.recv());
            Ok(SPACE)
        };
        let (monitor, count) = counting(waiting, LONG, Duration::from_millis(20));
        let refused = async |monitor: &DiskMonitor| {
            let error = monitor.space().await.expect_err("no answer");
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        };
        let started = Instant::now();
        for _ in 0..10_000 {
            refused(&monitor).await;
        }
        // Only the first request waited, otherwise they would have waited for 200 seconds.
        assert!(started.elapsed() < LONG);
        let mut expired = monitor.clone();
        expired.max_age = Duration::ZERO;
        refused(&expired).await;
        answer.send(()).expect("a waiting thread");
        expired.read_timeout = LONG;
        assert_eq!(expired.space().await.expect("an answer"), SPACE);
        assert_eq!(count.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn monitor_reads_again_after_an_error() {
        let read = |number| match number {
            0 => Err(io::ErrorKind::NotFound.into()),
            _ => Ok(SPACE),
        };
        let (monitor, _) = counting(read, LONG, LONG);
        let error = monitor.space().await.expect_err("an error");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert_eq!(monitor.space().await.expect("a space"), SPACE);
    }

    #[test]
    fn space_has_three_states() {
        let state = |free| DiskSpace { free, total: 1 << 40 }.state(1 << 30);
        assert_eq!(state(2 << 30), SpaceState::Sufficient);
        assert_eq!(state(512 << 20), SpaceState::Low);
        assert_eq!(state(0), SpaceState::Exhausted);
        let space = DiskSpace::of(Path::new("/")).expect("the root directory");
        assert!(space.free <= space.total && space.total > 0);
    }
}
