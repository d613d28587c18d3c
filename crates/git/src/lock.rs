//! Lock that serializes writes to one repository across tasks, processes and nodes.
//!
//! Within the process, a fair mutex orders the writers. Between processes, two advisory file locks do. A writer
//! locks the turnstile first and releases it when it has the write lock, so a busy node cannot starve a waiting
//! one. Pushes through the `git` program do not use this lock; compare-and-swap protects against those.

use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use super::store::RepositoryId;
use super::{Error, Repository, Result};

/// Maximum time that a writer waits for the lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum pause between two attempts to lock a file.
const MAX_PAUSE: Duration = Duration::from_millis(10);

/// Queues of writers in this process, one for each repository with writers.
#[derive(Default)]
pub(super) struct WriteQueues(Mutex<HashMap<RepositoryId, Weak<AsyncMutex<()>>>>);

impl WriteQueues {
    fn queue(&self, id: &RepositoryId) -> Arc<AsyncMutex<()>> {
        let mut queues = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = queues.get(id).and_then(Weak::upgrade) {
            return queue;
        }
        queues.retain(|_, queue| queue.strong_count() > 0);
        let queue = Arc::new(AsyncMutex::new(()));
        queues.insert(id.clone(), Arc::downgrade(&queue));
        queue
    }
}

/// Exclusive write access to a repository; dropping it unlocks.
///
/// Move it into the blocking work it guards: a canceled caller must not unlock while the work still runs.
#[derive(Debug)]
pub struct WriteGuard {
    // The order matters: the file is unlocked before the next writer of this process wakes up.
    _file: File,
    _turn: OwnedMutexGuard<()>,
}

/// A repository with exclusive write access. Its operations release the access when they are done.
pub struct LockedRepository {
    pub(super) repository: Repository,
    pub(super) guard: WriteGuard,
}

impl LockedRepository {
    /// Runs `publish`, which updates refs, and then unlocks the repository. A canceled caller does not unlock it earlier.
    ///
    /// # Errors
    /// As [`Repository::git2`].
    pub(super) async fn publish<T, F>(self, publish: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&git2::Repository) -> Result<T> + Send + 'static,
    {
        let Self { repository, guard } = self;
        repository
            .git2(move |repository| {
                let _guard = guard;
                publish(repository)
            })
            .await
    }
}

impl Repository {
    /// Waits for exclusive write access and returns the repository with it, to check conditions before an operation.
    ///
    /// # Errors
    /// As [`Self::write_lock`].
    pub async fn lock(&self) -> Result<LockedRepository> {
        let guard = self.write_lock().await?;
        Ok(LockedRepository {
            repository: self.clone(),
            guard,
        })
    }

    /// Waits for exclusive write access, in the order of the calls.
    ///
    /// # Errors
    /// [`Error::Locked`] after a minute, [`Error::RepositoryMissing`], or an I/O error.
    pub async fn write_lock(&self) -> Result<WriteGuard> {
        self.write_lock_within(LOCK_TIMEOUT).await
    }

    async fn write_lock_within(&self, patience: Duration) -> Result<WriteGuard> {
        let deadline = Instant::now() + patience;
        let queue = self.shared().locks.queue(self.id());
        let turn = tokio::time::timeout(patience, queue.lock_owned())
            .await
            .map_err(|_| Error::Locked)?;
        let directory = self.path();
        tokio::task::spawn_blocking(move || {
            let turnstile = lock_file(&directory.join("holdfast-turn"), deadline)?;
            let file = lock_file(&directory.join("holdfast-write"), deadline)?;
            drop(turnstile);
            Ok(WriteGuard {
                _file: file,
                _turn: turn,
            })
        })
        .await
        .map_err(|_| Error::Worker)?
    }
}

/// Locks a file by polling. Blocking in the kernel could neither be limited nor be interrupted at shutdown.
fn lock_file(path: &Path, deadline: Instant) -> Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::RepositoryMissing,
            _ => Error::Io(error),
        })?;
    let mut pause = Duration::from_micros(500);
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() >= deadline => return Err(Error::Locked),
            Err(TryLockError::WouldBlock) => std::thread::sleep(pause),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        pause = (pause * 2).min(MAX_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::super::testing::Fixture;
    use super::super::{Error, RepositoryStore};

    #[tokio::test]
    async fn second_writer_of_this_process_waits() {
        let fixture = Fixture::new("main").await;
        let guard = fixture.repository.write_lock().await.unwrap();
        let result = fixture
            .repository
            .write_lock_within(Duration::from_millis(30))
            .await;
        assert!(matches!(result, Err(Error::Locked)));
        drop(guard);
        fixture
            .repository
            .write_lock_within(Duration::from_secs(5))
            .await
            .unwrap();
    }

    #[tokio::test]
    async fn writer_of_another_process_waits() {
        let fixture = Fixture::new("main").await;
        // A separate store shares only the files with the first, like another process.
        let other = RepositoryStore::new(fixture.root.path(), 2)
            .unwrap()
            .repository(&fixture.id);
        let guard = fixture.repository.write_lock().await.unwrap();
        let result = other.write_lock_within(Duration::from_millis(30)).await;
        assert!(matches!(result, Err(Error::Locked)));
        drop(guard);
        other.write_lock_within(Duration::from_secs(5)).await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn writers_are_exclusive_and_no_process_starves() {
        let fixture = Fixture::new("main").await;
        let inside = Arc::new(AtomicUsize::new(0));
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..3 {
            let repository = RepositoryStore::new(fixture.root.path(), 2)
                .unwrap()
                .repository(&fixture.id);
            for _ in 0..20 {
                let (repository, inside) = (repository.clone(), Arc::clone(&inside));
                tasks.spawn(async move {
                    let _guard = repository.write_lock().await.unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    tokio::task::yield_now().await;
                    assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
                });
            }
        }
        let mut finished = 0;
        while let Some(result) = tasks.join_next().await {
            result.unwrap();
            finished += 1;
        }
        assert_eq!(finished, 60);
    }
}
