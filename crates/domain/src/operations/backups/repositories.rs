//! Copies of repositories, file by file.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::{StreamExt, stream};
use git::{FileVisitor, ObjectFile, RepositoryFiles, RepositoryId};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use storage::entities::projects;

use super::file_store::FileStore;
use super::manifest::{ListedFile, RepositoryEntry, RepositoryListing};
use super::{BackupEvent, Reporter, blocking};
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};

/// Projects read per statement.
const BATCH: u64 = 1_000;
/// Repositories that are copied at a time.
const CONCURRENCY: usize = 4;

/// The result of copying repositories.
#[derive(Debug, Default)]
pub(super) struct RepositoryCopies {
    /// The copies by project.
    pub(super) entries: BTreeMap<i64, RepositoryEntry>,
    /// Why a repository could not be copied.
    pub(super) failures: BTreeMap<i64, String>,
}

enum Outcome {
    Copied(RepositoryEntry),
    Missing,
    Failed(String),
}

/// Returns the IDs of all projects.
///
/// # Errors
/// Returns an error if a database query fails.
pub(super) async fn projects(backend: &Backend) -> Result<Vec<i64>> {
    let mut found: Vec<i64> = Vec::new();
    loop {
        let ids: Vec<i64> = projects::Entity::find()
            .select_only()
            .column(projects::Column::Id)
            .filter(projects::Column::Id.gt(found.last().copied().unwrap_or(0)))
            .order_by_asc(projects::Column::Id)
            .limit(BATCH)
            .into_tuple()
            .all(backend.database.read())
            .await?;
        if ids.is_empty() {
            return Ok(found);
        }
        found.extend(ids);
    }
}

/// Copies the repositories of projects. Files of an earlier copy are not read again. Projects without a repository are omitted.
///
/// # Errors
/// Returns an error if the backup cannot be written. A repository that cannot be read is a failure in the result.
pub(super) async fn copy(
    backend: &Backend,
    store: &Arc<FileStore>,
    ids: impl IntoIterator<Item = i64>,
    earlier: &BTreeMap<i64, RepositoryEntry>,
    report: Reporter<'_>,
) -> Result<RepositoryCopies> {
    let ids: Vec<i64> = ids.into_iter().collect();
    let total = ids.len() as u64;
    let mut copies = RepositoryCopies::default();
    let mut done = 0;
    let mut outcomes = stream::iter(ids)
        .map(|id| async move { (id, copy_one(backend, store, id, earlier.get(&id)).await) })
        .buffered(CONCURRENCY);
    while let Some((id, outcome)) = outcomes.next().await {
        done += 1;
        report(BackupEvent::Repositories { done, total });
        match outcome? {
            Outcome::Copied(entry) => {
                copies.entries.insert(id, entry);
            }
            Outcome::Missing => {}
            Outcome::Failed(cause) => {
                copies.failures.insert(id, cause);
            }
        }
    }
    Ok(copies)
}

async fn copy_one(
    backend: &Backend,
    store: &Arc<FileStore>,
    id: i64,
    earlier: Option<&RepositoryEntry>,
) -> Result<Outcome> {
    let (reader, listing) = (Arc::clone(store), earlier.map(|entry| entry.listing));
    let earlier_listing: Option<RepositoryListing> = blocking(move || {
        // A damaged list only means that all files are read.
        Ok(listing.and_then(|listing| reader.read_description(listing).ok()))
    })
    .await?;
    let known = earlier_listing
        .iter()
        .flat_map(|listing| listing.objects.iter().cloned());
    let state = Arc::new(Mutex::new(CopyState::default()));
    let visitor = CopyVisitor {
        store: Arc::clone(store),
        known: known.map(|file| (file.name.clone(), file)).collect(),
        found: HashMap::new(),
        state: Arc::clone(&state),
    };
    let repository = backend.repositories.repository(&RepositoryId::of_project(id));
    let visited = repository.visit_files(visitor).await;
    let failure = state
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .failure
        .take();
    if let Some(failure) = failure {
        return Err(Error::internal(failure));
    }
    let (files, visitor) = match visited {
        Ok(visited) => visited,
        Err(git::Error::RepositoryMissing) => return Ok(Outcome::Missing),
        Err(error) => return Ok(Outcome::Failed(error.to_string())),
    };
    let store = Arc::clone(store);
    let entry = move || {
        let listing = listing_of(&store, files, visitor.found).map_err(Error::internal)?;
        let listing = store.add_description(&listing).map_err(Error::internal)?;
        Ok(Outcome::Copied(RepositoryEntry {
            project_id: id,
            listing,
        }))
    };
    blocking(entry).await
}

fn listing_of(
    store: &FileStore,
    files: RepositoryFiles,
    mut found: HashMap<String, ListedFile>,
) -> io::Result<RepositoryListing> {
    let objects = files.objects.iter().map(|file| {
        let missing = || io::Error::other("a file of objects was not visited");
        found.remove(&file.name).ok_or_else(missing)
    });
    Ok(RepositoryListing {
        head: files.head,
        references: store.add(&mut files.references.as_slice())?,
        objects: objects.collect::<io::Result<_>>()?,
    })
}

#[derive(Default)]
struct CopyState {
    /// Why the backup could not be written.
    failure: Option<io::Error>,
}

struct CopyVisitor {
    store: Arc<FileStore>,
    /// Files of the earlier copy.
    known: HashMap<String, ListedFile>,
    found: HashMap<String, ListedFile>,
    state: Arc<Mutex<CopyState>>,
}

impl CopyVisitor {
    fn is_unchanged(known: &ListedFile, file: &ObjectFile) -> bool {
        (known.file.size, known.modified, known.inode) == (file.size, file.modified, file.inode)
    }
}

impl FileVisitor for CopyVisitor {
    fn visit(&mut self, file: &ObjectFile, path: &Path) -> io::Result<()> {
        if self
            .found
            .get(&file.name)
            .is_some_and(|known| Self::is_unchanged(known, file))
        {
            return Ok(());
        }
        // A file that was lost from the store is stored again.
        if let Some(known) = self
            .known
            .get(&file.name)
            .filter(|known| Self::is_unchanged(known, file) && self.store.contains(known.file))
        {
            self.found.insert(file.name.clone(), known.clone());
            return Ok(());
        }
        let mut source = SourceFile {
            file: File::open(path)?,
            has_failed: false,
        };
        let stored = match self.store.add(&mut source) {
            Ok(stored) => stored,
            Err(error) => {
                let text = error.to_string();
                if let (false, Ok(mut state)) = (source.has_failed, self.state.lock()) {
                    state.failure = Some(error);
                }
                return Err(io::Error::other(text));
            }
        };
        let listed = ListedFile {
            name: file.name.clone(),
            modified: file.modified,
            inode: file.inode,
            file: stored,
        };
        self.found.insert(file.name.clone(), listed);
        Ok(())
    }
}

/// A file of the instance. Distinguishes errors of reading from those of writing.
struct SourceFile {
    file: File,
    has_failed: bool,
}

impl Read for SourceFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer);
        self.has_failed |= read.is_err();
        read
    }
}
