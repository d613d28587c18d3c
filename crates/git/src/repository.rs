//! Handle on one repository, with a pool of open libgit2 handles and access to the blocking pool.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::caches::Caches;
use super::process::ProcessorBudget;
use super::result_memory::{ResultMemory, ResultSize};
use super::slots::SlotHolder;
use super::store::{RepositoryId, StoreState};
use super::{Error, Result};

/// Maximum number of idle libgit2 handles of a repository; each has its own list of packs, so few are kept.
const IDLE_HANDLES: usize = 4;

/// Handle on one repository of a [`super::RepositoryStore`]. Cloning it copies a few reference counts.
#[derive(Clone)]
pub struct Repository {
    shared: Arc<StoreState>,
    id: RepositoryId,
    holder: Option<SlotHolder>,
    memory: Option<Arc<dyn ResultMemory>>,
    processor: Option<Arc<dyn ProcessorBudget>>,
}

impl Repository {
    pub(super) fn new(shared: Arc<StoreState>, id: RepositoryId) -> Self {
        Self {
            shared,
            id,
            holder: None,
            memory: None,
            processor: None,
        }
    }

    /// Returns a handle whose operations take the slots of a client, of which each client gets only a share. Other
    /// handles are for work of the server itself.
    #[must_use]
    pub fn on_behalf_of(mut self, holder: SlotHolder) -> Self {
        self.holder = Some(holder);
        self
    }

    /// Returns a handle that reserves memory for large results.
    #[must_use]
    pub fn with_memory(mut self, memory: Option<Arc<dyn ResultMemory>>) -> Self {
        self.memory = memory;
        self
    }

    /// Returns a handle whose programs use the processor time of a client.
    #[must_use]
    pub fn with_processor_budget(mut self, budget: Option<Arc<dyn ProcessorBudget>>) -> Self {
        self.processor = budget;
        self
    }

    /// Checks whether the client has processor time for a program.
    ///
    /// # Errors
    /// [`Error::ProcessorTimeUsed`] if the client has none.
    pub(super) fn check_processor_time(&self) -> Result<()> {
        let wait = self.processor.as_ref().and_then(|budget| budget.wait());
        wait.map_or(Ok(()), |wait| Err(Error::ProcessorTimeUsed(wait)))
    }

    /// Returns the processor time of the client, or `None` for work of the server itself.
    pub(super) fn processor_budget(&self) -> Option<&Arc<dyn ProcessorBudget>> {
        self.processor.as_ref()
    }

    /// Returns a counter for the texts of one result, which reserves the memory of the client.
    pub(super) fn result_size(&self) -> ResultSize {
        ResultSize::new(self.memory.clone())
    }

    pub(super) fn holder(&self) -> Option<&SlotHolder> {
        self.holder.as_ref()
    }

    pub(super) fn shared(&self) -> &StoreState {
        &self.shared
    }

    pub(super) fn id(&self) -> &RepositoryId {
        &self.id
    }

    /// Returns the repository's directory, which may not exist.
    pub(super) fn path(&self) -> PathBuf {
        self.shared.path(&self.id)
    }

    /// Runs blocking work on the open repository in a slot of the store.
    ///
    /// # Errors
    /// [`Error::RepositoryMissing`] if its directory does not exist, and errors of `work`.
    pub(super) async fn blocking<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&OpenHandles) -> Result<T> + Send + 'static,
    {
        let id = self.id.clone();
        let work = move |shared: &StoreState| work(&*shared.opened(&id)?);
        self.shared.run(self.holder(), work).await
    }

    /// Runs blocking work with libgit2 on a pooled handle.
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

/// Open handles of one repository, shared by all its [`Repository`] values.
pub(super) struct OpenHandles {
    path: PathBuf,
    settings: PathBuf,
    idle: Mutex<Vec<git2::Repository>>,
    pub(super) history: super::history::History,
}

impl OpenHandles {
    /// `settings` is the path of the settings that only libgit2 reads.
    pub(super) fn new(path: PathBuf, settings: PathBuf, caches: Arc<Caches>) -> Self {
        Self {
            path,
            settings,
            idle: Mutex::new(Vec::new()),
            history: super::history::History::new(caches),
        }
    }

    /// Returns the repository's directory.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Lends a libgit2 handle to `work`. The handles are `Send` but not `Sync`, so they are pooled.
    pub(super) fn with_git2<T>(&self, work: impl FnOnce(&git2::Repository) -> Result<T>) -> Result<T> {
        let pooled = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let repository = match pooled {
            Some(repository) => repository,
            None => self.open()?,
        };
        let result = work(&repository);
        // After libgit2 has failed to read `packed-refs`, the same handle treats the file as empty until it changes.
        if matches!(result, Err(Error::Git2(_))) {
            return result;
        }
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
        // libgit2 reads the setting at the first use of the object database, so it must be added before.
        repository
            .config()?
            .add_file(&self.settings, git2::ConfigLevel::App, false)?;
        Ok(repository)
    }
}
