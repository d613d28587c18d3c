//! Backup and restore of the database, the repositories, the objects and the key (ADR 47, `docs/BACKUP.md`).
//!
//! A directory contains several backups, which share files. The server may run during a backup. Repositories and
//! objects are copied first, then the database, and then the repositories and objects that changed since. Each row of
//! the database copy finds its repository and objects: those that existed before are in the first copy, also if they
//! are deleted during the backup, and newer ones are in the second copy. One that was created and deleted in between is
//! noticed, and the database is copied again.

mod encryption;
mod file_store;
mod header;
mod identifier;
mod manifest;
mod objects;
mod postgresql;
mod ref_changes;
mod references;
mod repositories;
mod restoration;
mod retention;
mod snapshot;
mod verification;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use storage::database;
use storage::entities::{instances, now};

use crate::integrations::object_storage;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::operations::{instance_identity, key_rotation};
use crate::secrets::Secret;

pub use encryption::read_passphrase;
pub use identifier::BackupId;
pub use manifest::BackupManifest;
pub use restoration::{RestoreOptions, RestoreSummary, restore};
pub use verification::{VerifyOptions, VerifySummary, verify};

use file_store::{Access, FileStore};
use header::FORMAT;
use manifest::{ObjectCopies, ObjectEntry, RepositoryEntry};
use objects::ObjectCopiesByKey;
use ref_changes::MovedRefs;
use references::References;
use repositories::RepositoryCopies;
use snapshot::Snapshot;

/// Maximum number of copies of the database in one backup.
const MAX_SNAPSHOTS: usize = 8;
/// Maximum number of problems in a manifest.
const MAX_PROBLEMS: usize = 1_000;

/// Progress of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackupEvent {
    /// Repositories were copied or compared.
    Repositories {
        /// Number of completed repositories.
        done: u64,
        /// Number of all repositories.
        total: u64,
    },
    /// Objects were copied.
    Objects {
        /// Number of completed objects.
        done: u64,
        /// Number of objects to copy.
        total: u64,
    },
    /// The database is copied.
    Database,
    /// Files of a backup were checked.
    Files {
        /// Number of checked files.
        done: u64,
    },
}

/// Receives the progress of a command.
pub type Reporter<'a> = &'a mut (dyn FnMut(BackupEvent) + Send);

/// Options of a backup.
#[derive(Debug)]
pub struct BackupOptions {
    /// The directory of the backups.
    pub directory: PathBuf,
    /// The passphrase, if the backups are encrypted.
    pub passphrase: Option<Secret>,
    /// If false, the objects of the object storage are excluded.
    pub include_objects: bool,
    /// Number of backups to retain; none for all.
    pub keep: Option<NonZeroUsize>,
}

/// Result of a backup.
#[derive(Debug)]
pub struct BackupSummary {
    /// The description of the backup.
    pub manifest: BackupManifest,
    /// The earlier backup with which it shares files.
    pub earlier: Option<BackupId>,
    /// Number of repositories that changed since the earlier backup.
    pub changed_repositories: u64,
    /// Number of objects that changed since the earlier backup.
    pub changed_objects: u64,
    /// Whether the files are encrypted.
    pub is_encrypted: bool,
    /// The earlier backups that were removed.
    pub removed: Vec<BackupId>,
    /// Why earlier backups, or files that no backup refers to, could not be deleted.
    pub retention_failure: Option<String>,
}

/// The earlier backup that a new one continues.
#[derive(Default)]
struct EarlierBackup {
    id: Option<BackupId>,
    newest: Option<BackupId>,
    repositories: BTreeMap<i64, RepositoryEntry>,
    objects: BTreeMap<String, ObjectEntry>,
}

/// Writes a backup into a new directory, or into one with earlier backups.
///
/// # Errors
/// Returns `Error::Rejected` if the directory has other content or is in use, if the passphrase does not match, or if a
/// rotation of the key runs. Returns an error if the database or a disk fails. An incomplete backup is not listed, and
/// the next backup deletes its files.
pub async fn backup(
    backend: &Backend,
    data_dir: &Path,
    options: BackupOptions,
    report: Reporter<'_>,
) -> Result<BackupSummary> {
    // The key file must have the keys of all values of the database copy.
    let _keys = key_rotation::lock_for_backup(data_dir).await?;
    let started_at = now();
    let identity = instances::get(backend.database.read()).await?;
    let instance_id = identity.map(|identity| identity.instance_id);
    let (directory, passphrase) = (options.directory, options.passphrase);
    let own = instance_id.clone();
    let (store, earlier, was_interrupted) = blocking(move || {
        let store = FileStore::open(&directory, passphrase.as_ref(), Access::Write)?;
        let was_interrupted = store.has_incoming();
        store.begin().map_err(Error::internal)?;
        let earlier = find_earlier(&store, own.as_deref()).map_err(Error::internal)?;
        Ok((Arc::new(store), earlier, was_interrupted))
    })
    .await?;
    let id = BackupId::next(earlier.newest.as_ref(), started_at);

    let copied = copy_consistently(
        backend,
        &store,
        data_dir,
        &earlier,
        options.include_objects,
        report,
    )
    .await?;
    let changed_repositories = changes(&copied.repositories, |entry| {
        earlier.repositories.get(&entry.project_id)
    });
    let changed_objects = changes(copied.objects.iter().flatten(), |entry| {
        earlier.objects.get(&entry.key)
    });
    let (finished, key, keep) = (
        Arc::clone(&store),
        data_dir.join(instance_identity::KEY),
        options.keep,
    );
    let storage_kind = backend.objects.kind();
    let finish = move || -> io::Result<(BackupManifest, retention::Removal)> {
        let objects = match &copied.objects {
            Some(objects) => ObjectCopies::write(&finished, objects.iter())?,
            None => ObjectCopies::Excluded(storage_kind.to_owned()),
        };
        let manifest = BackupManifest {
            format: FORMAT,
            id: id.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at,
            created_at: copied.created_at,
            instance_id,
            database: copied.snapshot.store(&finished)?,
            key: finished.add(&mut std::fs::File::open(key)?)?,
            repositories: copied.repositories,
            objects,
            moved_refs: copied.moved_refs,
            problems: copied.problems,
        };
        let description = finished.add_description(&manifest)?;
        // Files that changed while the backup ran were copied twice. Only the later copy belongs to the backup.
        let mut files = manifest.content(&finished)?;
        files.push(description);
        let names: Result<HashSet<String>> = files.iter().map(|file| finished.name(file.digest)).collect();
        finished.publish(&names.map_err(io::Error::other)?)?;
        finished.complete(&id, description)?;
        let mut removal = match (keep, was_interrupted) {
            (None, false) => retention::Removal::default(),
            (keep, _) => retention::remove(&finished, keep),
        };
        // After a failure, the next backup tries again to delete the files that no backup refers to.
        if removal.failure.is_none() {
            let ended = finished.end();
            removal.failure = ended
                .err()
                .map(|error| format!("{}: {error}", finished.directory().display()));
        }
        Ok((manifest, removal))
    };
    let (manifest, removal) = blocking(move || finish().map_err(Error::internal)).await?;
    Ok(BackupSummary {
        manifest,
        earlier: earlier.id,
        changed_repositories,
        changed_objects,
        is_encrypted: store.is_encrypted(),
        removed: removal.removed,
        retention_failure: removal.failure,
    })
}

/// Lists the complete backups of a directory, oldest first. A damaged one has the cause instead of a description.
///
/// # Errors
/// Returns `Error::Rejected` if the directory contains no backups or the passphrase does not match.
pub async fn list(
    directory: PathBuf,
    passphrase: Option<Secret>,
) -> Result<Vec<(BackupId, Result<BackupManifest, String>)>> {
    blocking(move || {
        let store = FileStore::open(&directory, passphrase.as_ref(), Access::Read)?;
        let ids = store.backups().map_err(Error::internal)?;
        let read = |id: BackupId| {
            let manifest = BackupManifest::read(&store, &id).map_err(|error| error.to_string());
            (id, manifest)
        };
        Ok(ids.into_iter().map(read).collect())
    })
    .await
}

/// Finds the newest readable backup of an instance.
fn find_earlier(store: &FileStore, instance_id: Option<&str>) -> io::Result<EarlierBackup> {
    let ids = store.backups()?;
    let mut earlier = EarlierBackup {
        newest: ids.last().cloned(),
        ..EarlierBackup::default()
    };
    for id in ids.iter().rev() {
        // A damaged backup is not continued, and its files are copied again if their lengths differ.
        let Ok(manifest) = BackupManifest::read(store, id) else {
            continue;
        };
        // Numbers and times of files identify them only within one data directory.
        if manifest.instance_id.as_deref() != instance_id {
            continue;
        }
        let Ok(objects) = manifest.read_objects(store) else {
            continue;
        };
        earlier.id = Some(id.clone());
        earlier.objects = objects;
        let entries = manifest.repositories.into_iter();
        earlier.repositories = entries.map(|entry| (entry.project_id, entry)).collect();
        break;
    }
    Ok(earlier)
}

/// A copy whose database refers only to its repositories and objects.
struct ConsistentCopy {
    snapshot: Snapshot,
    created_at: DateTime<Utc>,
    repositories: Vec<RepositoryEntry>,
    /// `None` if the objects are excluded.
    objects: Option<Vec<ObjectEntry>>,
    moved_refs: Vec<MovedRefs>,
    problems: Vec<String>,
}

async fn copy_consistently(
    backend: &Backend,
    store: &Arc<FileStore>,
    data_dir: &Path,
    earlier: &EarlierBackup,
    include_objects: bool,
    report: Reporter<'_>,
) -> Result<ConsistentCopy> {
    let ids = repositories::projects(backend).await?;
    let mut repositories = repositories::copy(backend, store, ids, &earlier.repositories, report).await?;
    let mut objects = ObjectCopiesByKey::default();
    if include_objects {
        objects = objects::copy(&backend.objects, store, &earlier.objects, report).await?;
    }
    let mut missing_before: Option<BTreeSet<String>> = None;
    for _ in 0..MAX_SNAPSHOTS {
        report(BackupEvent::Database);
        let created_at = now();
        let snapshot = Snapshot::take(&backend.database, &data_dir.join(object_storage::SPOOL)).await?;
        let references = References::read(&snapshot).await?;
        let ids = references.projects.iter().copied();
        let newer = repositories::copy(backend, store, ids, &repositories.entries, report).await?;
        let moved_refs = moved_refs(store, &repositories.entries, &newer.entries).await?;
        repositories.entries.extend(newer.entries);
        repositories.failures = newer.failures;
        if include_objects {
            let newer = objects::copy(&backend.objects, store, &objects.entries, report).await?;
            // An object that was deleted since is needed only if the database copy refers to it.
            objects
                .entries
                .retain(|key, _| references.objects.contains_key(key));
            objects.entries.extend(newer.entries);
            objects.failures = newer.failures;
        }
        let missing = missing(&references, &repositories, include_objects.then_some(&objects));
        // If two copies of the database refer to something that did not exist in between, it is lost.
        if missing.is_empty() || missing_before.is_some_and(|before| before.is_superset(&missing)) {
            let failures = repositories.failures.iter();
            let failures =
                failures.map(|(id, cause)| format!("project {id}: its repository cannot be read: {cause}"));
            let unreadable = objects.failures.iter().filter_map(|(key, cause)| {
                let owner = references.objects.get(key)?;
                Some(format!("{owner}: its object cannot be read: {cause}"))
            });
            let problems = failures.chain(unreadable).chain(missing);
            let problems = problems.take(MAX_PROBLEMS).collect();
            repositories
                .entries
                .retain(|id, _| references.projects.contains(id));
            objects.entries.retain(|key, _| !references.is_unknown_piece(key));
            return Ok(ConsistentCopy {
                snapshot,
                created_at,
                repositories: repositories.entries.into_values().collect(),
                objects: include_objects.then(|| objects.entries.into_values().collect()),
                moved_refs,
                problems,
            });
        }
        missing_before = Some(missing);
    }
    Err(rejected(
        "repositories or uploads were deleted faster than they could be copied; run the command again"
            .to_owned(),
    ))
}

/// Returns the refs that moved between two copies of the repositories.
async fn moved_refs(
    store: &Arc<FileStore>,
    before: &BTreeMap<i64, RepositoryEntry>,
    after: &BTreeMap<i64, RepositoryEntry>,
) -> Result<Vec<MovedRefs>> {
    let changed = after.iter().map(|(id, entry)| (before.get(id).copied(), *entry));
    let changed: Vec<_> = changed
        .filter(|(before, after)| before.as_ref() != Some(after))
        .collect();
    let store = Arc::clone(store);
    blocking(move || {
        let mut moved = Vec::new();
        for (before, after) in changed {
            let found = ref_changes::compare(&store, before.as_ref(), &after);
            moved.extend(found.map_err(Error::internal)?);
        }
        Ok(moved)
    })
    .await
}

/// Returns what the database refers to and the copies lack.
fn missing(
    references: &References,
    repositories: &RepositoryCopies,
    objects: Option<&ObjectCopiesByKey>,
) -> BTreeSet<String> {
    let lost = references
        .repositories
        .iter()
        .filter(|id| !repositories.entries.contains_key(id) && !repositories.failures.contains_key(id));
    let mut missing: BTreeSet<String> = lost
        .map(|id| format!("project {id}: its repository is missing"))
        .collect();
    if let Some(objects) = objects {
        let lost = references
            .objects
            .iter()
            .filter(|(key, _)| !objects.entries.contains_key(*key) && !objects.failures.contains_key(*key));
        missing.extend(lost.map(|(_, owner)| format!("{owner}: its object is missing")));
    }
    missing
}

/// Counts the entries that differ from the earlier ones.
fn changes<'a, T: PartialEq + 'a>(
    entries: impl IntoIterator<Item = &'a T>,
    earlier: impl Fn(&T) -> Option<&'a T>,
) -> u64 {
    entries
        .into_iter()
        .filter(|entry| earlier(entry) != Some(*entry))
        .count() as u64
}

fn rejected(text: String) -> Error {
    Error::Rejected(text.into())
}

/// Returns the error for a file of a backup that cannot be read. `what` describes the file.
fn damaged(what: &str, error: io::Error) -> Error {
    if error.kind() == io::ErrorKind::StorageFull {
        return Error::internal(error);
    }
    rejected(format!("{what}: {}", cause(&error)))
}

/// Returns why a file of a backup cannot be read.
fn cause(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "its file is missing".to_owned(),
        _ => error.to_string(),
    }
}

/// Runs work that blocks.
async fn blocking<T, F>(work: F) -> Result<T>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T> + Send + 'static,
{
    git::run_blocking(work).await.map_err(Error::internal)?
}

impl From<database::Error> for Error {
    fn from(error: database::Error) -> Self {
        Self::internal(error)
    }
}
