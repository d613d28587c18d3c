//! Repositories on disk, and the shared limits and caches of all operations on them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use cache::IdleCache;
use sha2::{Digest, Sha256};

use super::blocking::run_blocking;
use super::caches::{Caches, DEFAULT_GIT_CACHE_BYTES};
use super::fair_semaphore::SemaphoreUsage;
use super::lock::WriteQueues;
use super::memory_budget::{DEFAULT_GIT_MEMORY_BYTES, MemoryBudget};
use super::repository::{OpenHandles, Repository};
use super::slots::{OperationSlots, SlotHolder, SlotUsage};
use super::write_probe::WriteProbe;
use super::{Error, Result, fork, layout};

/// Maximum number of repositories with open handles.
const OPEN_REPOSITORIES: u32 = 128;

/// Time after which the handles of an unused repository are closed.
const IDLE: Duration = Duration::from_secs(300);

/// Default of the maximum size of the pack of a push, in bytes.
pub const DEFAULT_MAX_PUSH_BYTES: u64 = 10 << 30;

/// Name of a repository on disk: the SHA-256 of the project ID in hex.
///
/// It never contains client input, so it needs no escaping.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RepositoryId(Arc<str>);

impl RepositoryId {
    /// Returns the ID of a project's repository.
    #[must_use]
    pub fn of_project(project_id: i64) -> Self {
        Self(hex::encode(Sha256::digest(project_id.to_string())).into())
    }

    /// Returns the directory of the repository below the root of the store: `ab/cd/<id>.git`.
    #[must_use]
    pub fn relative_path(&self) -> String {
        let name = &self.0;
        format!("{}/{}/{name}.git", &name[..2], &name[2..4])
    }
}

impl fmt::Debug for RepositoryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Limits of a store.
#[derive(Debug, Clone, Copy)]
pub struct StoreLimits {
    /// Maximum number of blocking operations that run at once.
    pub concurrency: usize,
    /// Maximum memory of all `git` programs together, in bytes.
    pub memory_bytes: u64,
    /// Maximum size of the pack of a push, in bytes. It determines the disk space for pushes that are received.
    pub max_push_bytes: u64,
    /// Maximum memory of all caches of results together, in bytes.
    pub cache_bytes: u64,
}

/// All repositories of one data directory.
#[derive(Clone)]
pub struct RepositoryStore {
    shared: Arc<StoreState>,
}

/// State shared by all [`Repository`] handles of one [`RepositoryStore`].
pub(super) struct StoreState {
    root: PathBuf,
    /// Limits on concurrent operations.
    pub(super) slots: OperationSlots,
    /// Memory of running programs.
    pub(super) memory: MemoryBudget,
    /// Queues of writers, one for each repository.
    pub(super) locks: WriteQueues,
    /// Results that depend only on object IDs.
    pub(super) caches: Arc<Caches>,
    /// Whether the hook scripts were found to run at their current location.
    pub(super) hooks_run: AtomicBool,
    probe: WriteProbe,
    opened: IdleCache<RepositoryId, Arc<OpenHandles>>,
}

impl RepositoryStore {
    /// Returns the use of the slots.
    #[must_use]
    pub fn slot_usage(&self) -> SlotUsage {
        self.shared.slots.usage()
    }

    /// Returns the use of the memory budget of Git programs in bytes.
    #[must_use]
    pub fn memory_usage(&self) -> SemaphoreUsage {
        self.shared.memory.usage()
    }

    /// Opens a store below `root`, which is created if absent. At most `concurrency` blocking operations run at
    /// once.
    ///
    /// # Errors
    /// If the directory cannot be created.
    pub fn new(root: impl Into<PathBuf>, concurrency: usize) -> Result<Self> {
        Self::with_limits(
            root,
            StoreLimits {
                concurrency,
                memory_bytes: DEFAULT_GIT_MEMORY_BYTES,
                max_push_bytes: DEFAULT_MAX_PUSH_BYTES,
                cache_bytes: DEFAULT_GIT_CACHE_BYTES,
            },
        )
    }

    /// Opens a store as [`Self::new`] does, with all limits.
    ///
    /// # Errors
    /// If the directory cannot be created.
    pub fn with_limits(root: impl Into<PathBuf>, limits: StoreLimits) -> Result<Self> {
        let root = root.into();
        std::fs::create_dir_all(&root)?;
        let root = root.canonicalize()?;
        layout::write_libgit2_settings(&root)?;
        // libgit2 would keep up to 256 MiB of objects that were read once.
        git2::opts::enable_caching(false);
        layout::delete_abandoned(&root)?;
        let shared = StoreState {
            root,
            locks: WriteQueues::default(),
            caches: Arc::new(Caches::new(limits.cache_bytes)),
            slots: OperationSlots::new(limits.concurrency, limits.max_push_bytes),
            memory: MemoryBudget::new(limits.memory_bytes),
            hooks_run: AtomicBool::new(false),
            probe: WriteProbe::default(),
            opened: IdleCache::new(OPEN_REPOSITORIES, IDLE),
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// Returns the directory of the repositories.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.shared.root
    }

    /// Returns whether the directory of the repositories can be read, and a file in it can be written and synced within
    /// two seconds. Concurrent calls share one probe at a time.
    pub async fn is_writable(&self) -> bool {
        self.shared.probe.is_writable(&self.shared.root).await
    }

    /// Returns a handle on the repository without opening or checking it.
    #[must_use]
    pub fn repository(&self, id: &RepositoryId) -> Repository {
        Repository::new(Arc::clone(&self.shared), id.clone())
    }

    /// Creates an empty bare repository whose `HEAD` names `default_branch`; it is durable when this returns.
    ///
    /// # Errors
    /// [`Error::RepositoryExists`], [`Error::InvalidReferenceName`], or an I/O error.
    pub async fn create(&self, id: &RepositoryId, default_branch: &str) -> Result<Repository> {
        super::check_branch_name(default_branch)?;
        let (id, branch) = (id.clone(), default_branch.to_owned());
        let repository = self.repository(&id);
        self.shared
            .run(None, move |shared| {
                layout::create(shared.root(), &shared.path(&id), &branch)
            })
            .await?;
        Ok(repository)
    }

    /// Creates a repository with the objects, branches, tags and default branch of another one. Object files
    /// are hard links where the file system supports them. Git never changes such a file, and removing one
    /// name does not affect the other. The fork is durable when this returns.
    ///
    /// # Errors
    /// [`Error::RepositoryExists`], [`Error::RepositoryMissing`] for the source, or an I/O error.
    pub async fn fork(&self, source: &RepositoryId, id: &RepositoryId) -> Result<Repository> {
        let default_branch = self.repository(source).default_branch().await?;
        // References first: the objects they lead to remain until the copy is complete.
        let references = self.repository(source).packed_references().await?;
        let (source, id) = (source.clone(), id.clone());
        let fork = self.repository(&id);
        self.shared
            .run(None, move |shared| {
                let (from, to) = (shared.path(&source), shared.path(&id));
                fork::create(shared.root(), &from, &to, &default_branch, &references)
            })
            .await?;
        Ok(fork)
    }

    /// Removes a repository and all its files. A missing repository is not an error, so an interrupted caller
    /// can retry.
    ///
    /// # Errors
    /// An I/O error.
    pub async fn remove(&self, id: &RepositoryId) -> Result<()> {
        let id = id.clone();
        self.shared
            .run(None, move |shared| {
                shared.forget(&id);
                layout::remove(&shared.path(&id))
            })
            .await
    }

    /// Runs blocking work that creates a repository. It receives the root and a function that returns the directory of
    /// a repository.
    pub(super) async fn run_creation<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Path, &dyn Fn(&RepositoryId) -> PathBuf) -> Result<T> + Send + 'static,
    {
        self.shared
            .run(None, move |shared| work(shared.root(), &|id| shared.path(id)))
            .await
    }

    /// Returns whether the repository exists.
    ///
    /// # Errors
    /// An I/O error.
    pub async fn exists(&self, id: &RepositoryId) -> Result<bool> {
        let id = id.clone();
        self.shared
            .run(None, move |shared| Ok(layout::is_repository(&shared.path(&id))?))
            .await
    }

    /// Returns the repositories on disk in no particular order; other files are ignored.
    ///
    /// # Errors
    /// An I/O error.
    pub async fn stored(&self) -> Result<Vec<RepositoryId>> {
        self.shared
            .run(None, |shared| {
                let names = layout::repository_names(shared.root())?;
                Ok(names.into_iter().map(|name| RepositoryId(name.into())).collect())
            })
            .await
    }

    /// Returns the total size of the repository's files in bytes, without file-system overhead.
    ///
    /// # Errors
    /// [`Error::RepositoryMissing`], or an I/O error.
    pub async fn size(&self, id: &RepositoryId) -> Result<u64> {
        let id = id.clone();
        self.shared
            .run(None, move |shared| layout::size(&shared.path(&id)))
            .await
    }
}

impl StoreState {
    /// Runs blocking work on the blocking pool in a slot, which counts for `holder`.
    pub(super) async fn run<T, F>(self: &Arc<Self>, holder: Option<&SlotHolder>, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Self) -> Result<T> + Send + 'static,
    {
        let permit = self.slots.work.acquire(holder).await;
        let permit = permit.map_err(|_| Error::Worker)?;
        let shared = Arc::clone(self);
        run_blocking(move || {
            let _permit = permit;
            work(&shared)
        })
        .await?
    }

    /// Returns the directory of a repository.
    pub(super) fn path(&self, id: &RepositoryId) -> PathBuf {
        self.root.join(id.relative_path())
    }

    /// Returns the open handles of a repository, if any, without disk access.
    pub(super) fn open_handles(&self, id: &RepositoryId) -> Option<Arc<OpenHandles>> {
        self.opened.get(id)
    }

    /// Returns the open handles of a repository, creating them if absent.
    pub(super) fn opened(&self, id: &RepositoryId) -> Result<Arc<OpenHandles>> {
        if let Some(opened) = self.opened.get(id) {
            return Ok(opened);
        }
        let path = self.path(id);
        if !layout::is_repository(&path)? {
            return Err(Error::RepositoryMissing);
        }
        let settings = layout::libgit2_settings(&self.root);
        let opened = Arc::new(OpenHandles::new(path, settings, Arc::clone(&self.caches)));
        self.opened.insert(id.clone(), Arc::clone(&opened));
        Ok(opened)
    }

    /// Drops the open handles of a repository that is removed or replaced.
    pub(super) fn forget(&self, id: &RepositoryId) {
        self.opened.remove(id);
    }

    /// Returns the directory of all repositories.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }
}
