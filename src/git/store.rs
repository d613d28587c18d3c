//! Where repositories live on disk, and the shared limits and caches of all work on them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

use super::repository::{Opened, Repository};
use super::{Error, Result};

/// How many repositories keep open handles at once.
const OPEN_REPOSITORIES: u64 = 128;

/// The name of a repository on disk: the SHA-256 of its project's id, in hex.
///
/// Never made of anything a caller chose, so it needs no escaping.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RepositoryId(String);

impl RepositoryId {
    /// The id of a project's repository.
    #[must_use]
    pub fn of_project(project_id: i64) -> Self {
        Self(hex::encode(Sha256::digest(project_id.to_string())))
    }
}

impl fmt::Debug for RepositoryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// All repositories of one data directory.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

/// What every [`Repository`] handle of one [`Store`] shares.
pub(super) struct Shared {
    root: PathBuf,
    /// Bounds the blocking threads that Git work may take at once.
    pub(super) permits: Arc<Semaphore>,
    opened: moka::sync::Cache<RepositoryId, Arc<Opened>>,
}

impl Store {
    /// A store below `root`, which is created when absent; at most `permits` blocking operations run at once.
    ///
    /// # Errors
    /// When the directory cannot be created.
    pub fn new(root: impl Into<PathBuf>, permits: usize) -> Result<Self> {
        let root = root.into();
        std::fs::create_dir_all(&root)?;
        let root = root.canonicalize()?;
        let shared = Shared {
            root,
            permits: Arc::new(Semaphore::new(permits)),
            opened: moka::sync::Cache::builder()
                .max_capacity(OPEN_REPOSITORIES)
                .time_to_idle(std::time::Duration::from_secs(300))
                .build(),
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// A handle on the repository; nothing is opened or checked yet.
    #[must_use]
    pub fn repository(&self, id: &RepositoryId) -> Repository {
        Repository::new(Arc::clone(&self.shared), id.clone())
    }
}

impl Shared {
    /// The directory of a repository: `<root>/ab/cd/<id>.git`.
    pub(super) fn path(&self, id: &RepositoryId) -> PathBuf {
        let name = &id.0;
        self.root
            .join(&name[..2])
            .join(&name[2..4])
            .join(format!("{name}.git"))
    }

    /// The open handles of a repository, made when absent.
    pub(super) fn opened(&self, id: &RepositoryId) -> Result<Arc<Opened>> {
        if let Some(opened) = self.opened.get(id) {
            return Ok(opened);
        }
        let path = self.path(id);
        if !path.join("HEAD").is_file() {
            return Err(Error::RepositoryMissing);
        }
        let opened = Arc::new(Opened::new(path));
        self.opened.insert(id.clone(), Arc::clone(&opened));
        Ok(opened)
    }

    /// Drops the open handles of a repository that goes away or changes below us.
    pub(super) fn forget(&self, id: &RepositoryId) {
        self.opened.invalidate(id);
    }

    /// The directory all repositories live in.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }
}
