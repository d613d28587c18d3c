//! Checks that a directory can be written.

use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{Access, access};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

/// Time limit of a probe. A disk that does not respond fails the check; its thread remains until the disk responds.
const LIMIT: Duration = Duration::from_secs(2);

/// Writes a file, in at most one thread at a time.
#[derive(Debug, Default)]
pub(super) struct WriteProbe {
    running: Mutex<Option<(Instant, JoinHandle<io::Result<()>>)>>,
}

impl WriteProbe {
    /// Returns whether the directory can be read, and a file in it can be written and synced in time.
    pub(super) async fn is_writable(&self, directory: &Path) -> bool {
        let mut running = self.running.lock().await;
        let (began, thread) = running.get_or_insert_with(|| {
            let directory = directory.to_owned();
            let thread = tokio::task::spawn_blocking(move || probe(&directory));
            (Instant::now(), thread)
        });
        // Nothing is left for a thread that exceeded the limit, so further calls do not wait.
        let left = LIMIT.saturating_sub(began.elapsed());
        let Ok(done) = tokio::time::timeout(left, thread).await else {
            tracing::warn!("the disk of the repositories does not respond");
            return false;
        };
        *running = None;
        match done.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(%error, "failed to write to the directory of the repositories");
                false
            }
        }
    }
}

/// Writes and syncs a file without a name. Without the sync, an error of the disk would be reported to nothing.
fn probe(directory: &Path) -> io::Result<()> {
    access(directory, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK)?;
    let mut file = tempfile::tempfile_in(directory)?;
    file.write_all(b"x")?;
    file.sync_data()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn directory_is_writable_while_it_exists() {
        let directory = tempfile::tempdir().unwrap();
        let (path, probe) = (directory.path().to_owned(), WriteProbe::default());
        assert!(probe.is_writable(&path).await);
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0);
        drop(directory);
        assert!(!probe.is_writable(&path).await);
    }

    #[tokio::test]
    async fn probe_without_response_blocks_no_further_threads() {
        let directory = tempfile::tempdir().unwrap();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let blocked = tokio::task::spawn_blocking(move || released.recv().map_err(io::Error::other));
        let began = Instant::now().checked_sub(LIMIT).unwrap();
        let probe = WriteProbe {
            running: Mutex::new(Some((began, blocked))),
        };
        for _ in 0..100 {
            assert!(!probe.is_writable(directory.path()).await);
        }
        release.send(()).unwrap();
        while !probe.is_writable(directory.path()).await {
            tokio::task::yield_now().await;
        }
    }
}
