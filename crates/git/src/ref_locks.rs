//! Lock files of references, which a crash can leave behind.
//!
//! Git and libgit2 lock a reference with a file next to it, whose creator cannot be determined. Until a file that a crash left
//! is removed, the reference cannot change. Two rules detect such a file: it is older than any program needs a lock, or than
//! the last start of a server that was alone in the data directory.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use super::blocking::run_blocking;
use super::store::RepositoryStore;
use super::{Error, Repository, Result};

/// How long to retry while a `git` process locks a reference; `git` itself waits as long for packed references.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(10);

/// Age from which a lock file counts as left by a crash. Git needs a lock for milliseconds; the rest allows for large packed
/// references and for clock differences between nodes.
const STALE_LOCK_AGE: Duration = Duration::from_secs(5 * 60);

/// File below the root of all repositories. Its modification time is the last start of a server that was alone. The file
/// system sets it, as it sets the times of the lock files, so the clocks of the nodes do not matter.
const LONE_START: &str = "lone-start";

/// File with all packed references, which has a lock of its own.
const PACKED_REFS: &str = "packed-refs";

/// File to which Git writes the new content of [`PACKED_REFS`].
const NEW_PACKED_REFS: &str = "packed-refs.new";

impl RepositoryStore {
    /// Records that no other process uses the repositories now. Lock files of references from before count as left by a crash.
    ///
    /// # Errors
    /// I/O errors.
    pub fn record_lone_start(&self) -> Result<()> {
        let path = self.directory().join(LONE_START);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        // Only a write changes the modification time of an empty file on every file system.
        Ok(options.open(path)?.write_all(b"\n")?)
    }
}

impl Repository {
    /// Waits until the lock files of these references are gone, and then removes those that a crash left behind. A push would
    /// fail because of them. `deletes` is whether a reference is deleted, which also changes the packed references.
    ///
    /// Files that are in use for more than a second remain, and Git reports them.
    pub(super) async fn clear_stale_locks(&self, names: Vec<String>, deletes: bool) {
        if let Err(error) = self.try_clear_stale_locks(names, deletes).await {
            tracing::warn!(%error, "failed to remove the lock files of references");
        }
    }

    async fn try_clear_stale_locks(&self, mut names: Vec<String>, deletes: bool) -> Result<()> {
        let repository = self.path();
        // Git rejects other names later. They could lead out of the repository.
        names.retain(|name| git2::Reference::is_valid_name(name));
        names.extend(deletes.then(|| PACKED_REFS.to_owned()));
        let deadline = Instant::now() + LOCK_TIMEOUT;
        let locked = blocking(move || {
            loop {
                names.retain(|name| lock_file(&repository, name).exists());
                if names.is_empty() || Instant::now() >= deadline {
                    return Ok((repository, names));
                }
                std::thread::sleep(PAUSE);
            }
        });
        let (repository, names) = locked.await?;
        if names.is_empty() {
            return Ok(());
        }
        // Otherwise, this could remove a file that another writer has created instead of the stale one.
        let guard = self.write_lock().await?;
        blocking(move || {
            let _guard = guard;
            for name in &names {
                remove_stale_lock(&repository, name)?;
            }
            Ok(())
        })
        .await
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    run_blocking(work).await?
}

/// Retries an update of a reference while another process has its lock file, and removes a lock left by a crash. The caller
/// has the write lock, so no other writer removes it at the same time.
///
/// # Errors
/// [`Error::Locked`] if the lock file stays.
pub(super) fn retry_while_locked(
    repository: &git2::Repository,
    name: &str,
    change: impl Fn() -> std::result::Result<(), git2::Error>,
) -> Result<()> {
    let mut deadline = Instant::now() + LOCK_TIMEOUT;
    loop {
        match change() {
            Err(error) if error.code() == git2::ErrorCode::Locked => {
                if Instant::now() < deadline {
                    std::thread::sleep(PAUSE);
                    continue;
                }
                let cleared = remove_stale_lock(repository.path(), name)?
                    | remove_stale_lock(repository.path(), PACKED_REFS)?;
                if !cleared {
                    return Err(Error::Locked);
                }
                deadline = Instant::now() + LOCK_TIMEOUT;
            }
            result => return Ok(result?),
        }
    }
}

fn lock_file(repository: &Path, name: &str) -> PathBuf {
    repository.join(format!("{name}.lock"))
}

/// Removes a lock file whose creator cannot be alive any more. Returns whether it was removed.
///
/// The caller has waited for [`LOCK_TIMEOUT`]. After the clock was set forward, the lock of a running program looks old too,
/// and programs of a killed server end within this time, because no process reads their output.
fn remove_stale_lock(repository: &Path, name: &str) -> Result<bool> {
    let path = lock_file(repository, name);
    let Some(modified) = modified(&path)? else {
        return Ok(false);
    };
    let now = SystemTime::now();
    let is_old = now.duration_since(modified).is_ok_and(|age| age > STALE_LOCK_AGE);
    // After the clock was set back, files of running programs are older than the start too.
    let is_before = |start| modified < start && start <= now;
    // A program that packs references can run for longer after its server was killed.
    let is_stale = is_old || (name != PACKED_REFS && lone_start(repository)?.is_some_and(is_before));
    if is_stale {
        tracing::warn!(path = %path.display(), "removed a stale lock file");
        if name == PACKED_REFS {
            // Git creates the new content as exclusively as the lock file.
            match fs::remove_file(repository.join(NEW_PACKED_REFS)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
        fs::remove_file(path)?;
    }
    Ok(is_stale)
}

/// Returns when a server was last started alone, with the directory of a repository.
fn lone_start(repository: &Path) -> Result<Option<SystemTime>> {
    // A repository is three directories below the root.
    let root = repository.ancestors().nth(3);
    root.map_or(Ok(None), |root| modified(&root.join(LONE_START)))
}

/// Returns when a file was modified; `None` without the file.
fn modified(path: &Path) -> Result<Option<SystemTime>> {
    match fs::metadata(path).and_then(|metadata| metadata.modified()) {
        Ok(modified) => Ok(Some(modified)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::path::Path;
    use std::time::{Duration, SystemTime};

    use crate::refs::advance;
    use crate::testing::{self, Fixture};
    use crate::{Error, Oid};

    /// Creates a lock file that was modified so many seconds ago.
    fn lock(path: &Path, seconds: u64) {
        let modified = SystemTime::now() - Duration::from_secs(seconds);
        File::create(path).unwrap().set_modified(modified).unwrap();
    }

    async fn advance_main(fixture: &Fixture, from: Oid, to: Oid) -> crate::Result<()> {
        let moved = move |repository: &git2::Repository| advance(repository, "refs/heads/main", from, to);
        fixture.repository.git2(moved).await
    }

    #[tokio::test]
    async fn ref_update_waits_for_git_lock_and_removes_stale_lock() {
        let fixture = Fixture::new("main").await;
        let first = testing::commit(&fixture.repository, "main", &[("a", "1")]).await;
        let second = testing::commit(&fixture.repository, "main", &[("a", "2")]).await;
        let path = fixture.path().join("refs/heads/main.lock");
        lock(&path, 0);
        let refused = advance_main(&fixture, second, first).await;
        assert!(matches!(refused, Err(Error::Locked)));
        let held = path.clone();
        let release = tokio::task::spawn_blocking(move || {
            std::thread::sleep(Duration::from_millis(50));
            std::fs::remove_file(held).unwrap();
        });
        advance_main(&fixture, second, first).await.unwrap();
        release.await.unwrap();
        assert_eq!(fixture.git(&["rev-parse", "main"]).trim(), first.to_string());

        lock(&path, 7200);
        lock(&fixture.path().join("packed-refs.lock"), 7200);
        lock(&fixture.path().join("packed-refs.new"), 7200);
        fixture
            .repository
            .delete_branch("main", Some(first))
            .await
            .unwrap();
        fixture
            .repository
            .create_branch("main", &second.to_string())
            .await
            .unwrap();
        assert_eq!(fixture.git(&["rev-parse", "main"]).trim(), second.to_string());
        fixture.fsck();
    }

    #[tokio::test]
    async fn start_of_lone_server_makes_earlier_locks_stale() {
        let fixture = Fixture::new("main").await;
        let first = testing::commit(&fixture.repository, "main", &[("a", "1")]).await;
        let second = testing::commit(&fixture.repository, "main", &[("a", "2")]).await;
        let path = fixture.path().join("refs/heads/main.lock");
        fixture.store.record_lone_start().unwrap();
        lock(&path, 0);
        let refused = advance_main(&fixture, second, first).await;
        assert!(
            matches!(refused, Err(Error::Locked)),
            "a lock from after the start"
        );

        let start = fixture.root.path().join("lone-start");
        let set_start = |time| {
            File::options()
                .write(true)
                .open(&start)
                .unwrap()
                .set_modified(time)
                .unwrap()
        };
        let hour = Duration::from_secs(3600);
        lock(&path, 10);
        set_start(SystemTime::now() + hour);
        let refused = advance_main(&fixture, second, first).await;
        assert!(matches!(refused, Err(Error::Locked)), "the clock was set back");

        set_start(SystemTime::now());
        advance_main(&fixture, second, first).await.unwrap();
        assert_eq!(fixture.git(&["rev-parse", "main"]).trim(), first.to_string());

        let packed = fixture.path().join("packed-refs.lock");
        lock(&packed, 10);
        let repository = &fixture.repository;
        repository.clear_stale_locks(vec![], true).await;
        assert!(packed.exists(), "a program can still pack references");
        lock(&packed, 7200);
        repository.clear_stale_locks(vec![], true).await;
        assert!(!packed.exists());
    }

    #[tokio::test]
    async fn only_locks_of_references_are_removed() {
        let fixture = Fixture::new("main").await;
        fixture.store.record_lone_start().unwrap();
        let outside = fixture.root.path().join("outside.lock");
        let inside = fixture.path().join("refs/heads/main.lock");
        let other = fixture.path().join("refs/heads/other.lock");
        for path in [&outside, &inside, &other] {
            lock(path, 7200);
        }
        let up = "refs/heads/../../../../../outside".to_owned();
        assert!(fixture.path().join(format!("{up}.lock")).exists());
        let names = vec![up, "refs/heads/main".to_owned(), "refs/heads/missing".to_owned()];
        fixture.repository.clear_stale_locks(names, false).await;
        assert!(outside.exists() && other.exists());
        assert!(!inside.exists());
    }
}
