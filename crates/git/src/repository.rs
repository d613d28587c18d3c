//! One repository: a cheap handle, the pool of open libgit2 handles behind it, and the way onto the blocking pool.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::store::{RepositoryId, Shared};
use super::{Error, Result};

/// How many idle libgit2 handles one repository keeps; each caches objects, so few.
const IDLE_HANDLES: usize = 4;

/// A handle on one repository of a [`super::Store`]. Cloning costs two reference counts.
#[derive(Clone)]
pub struct Repository {
    shared: Arc<Shared>,
    id: RepositoryId,
}

impl Repository {
    pub(super) fn new(shared: Arc<Shared>, id: RepositoryId) -> Self {
        Self { shared, id }
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(super) fn id(&self) -> &RepositoryId {
        &self.id
    }

    /// The repository's directory; it need not exist.
    pub(super) fn path(&self) -> PathBuf {
        self.shared.path(&self.id)
    }

    /// Runs blocking work on the open repository under a permit of the store.
    ///
    /// # Errors
    /// [`Error::RepositoryMissing`] when its directory is not there, and whatever `work` answers.
    pub(super) async fn blocking<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Opened) -> Result<T> + Send + 'static,
    {
        let id = self.id.clone();
        self.shared.run(move |shared| work(&*shared.opened(&id)?)).await
    }

    /// Runs blocking work that needs libgit2, on a pooled handle.
    ///
    /// # Errors
    /// As [`Self::blocking`].
    pub(super) async fn git2<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&git2::Repository) -> Result<T> + Send + 'static,
    {
        self.blocking(move |opened| opened.with_git2(work)).await
    }
}

/// The open handles of one repository, shared by all its [`Repository`] values.
pub(super) struct Opened {
    path: PathBuf,
    settings: PathBuf,
    idle: Mutex<Vec<git2::Repository>>,
    pub(super) history: super::history::History,
}

impl Opened {
    /// `settings` is the file of settings that only libgit2 gets to see.
    pub(super) fn new(path: PathBuf, settings: PathBuf) -> Self {
        Self {
            path,
            settings,
            idle: Mutex::new(Vec::new()),
            history: super::history::History::default(),
        }
    }

    /// The repository's directory.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Lends a libgit2 handle to `work`; libgit2 handles are `Send` but not `Sync`, hence the pool.
    pub(super) fn with_git2<T>(&self, work: impl FnOnce(&git2::Repository) -> Result<T>) -> Result<T> {
        let pooled = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let repository = match pooled {
            Some(repository) => repository,
            None => self.open()?,
        };
        let result = work(&repository);
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_HANDLES {
            idle.push(repository);
        }
        result
    }

    fn open(&self) -> Result<git2::Repository> {
        let repository = git2::Repository::open_bare(&self.path).map_err(|error| match error.code() {
            git2::ErrorCode::NotFound => Error::RepositoryMissing,
            _ => Error::Git2(error),
        })?;
        // Must come before the object database is first used, which is when libgit2 reads the setting.
        repository
            .config()?
            .add_file(&self.settings, git2::ConfigLevel::App, false)?;
        Ok(repository)
    }
}
