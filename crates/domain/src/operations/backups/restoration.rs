//! Restore of a backup into an empty data directory.
//!
//! Everything is checked before anything is written. A mark in the data directory is written first and removed last, so
//! that no server starts on a directory that is not complete, and another restore can replace it.

mod target_database;
mod target_objects;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::{StreamExt, stream};
use git::{RepositoryId, RepositoryStore};
use storage::database;

use super::file_store::{Access, FileStore, StoredFile};
use super::manifest::{BackupManifest, ObjectEntry, RepositoryListing};
use super::verification::{check_for_restore, create_repository};
use super::{BackupEvent, Reporter, blocking, rejected};
use crate::kernel::error::{Error, Result};
use crate::operations::instance_identity::{
    self, DatabaseKind, RestoreMark, RestoreTarget, UnfinishedRestore,
};
use crate::secrets::{MergedKeys, Secret};
use target_database::TargetDatabase;
use target_objects::{check_objects, restore_objects};

/// Repositories that are restored at a time.
const CONCURRENCY: usize = 4;
/// Bytes of a key file that are read at most. A longer file is malformed.
const MAX_KEY_FILE_BYTES: u64 = 8 << 10;

/// Options of a restore.
#[derive(Debug)]
pub struct RestoreOptions {
    /// The directory of the backups.
    pub directory: PathBuf,
    /// The passphrase, if the backups are encrypted.
    pub passphrase: Option<Secret>,
    /// Name of the backup; none for the newest.
    pub backup: Option<String>,
    /// Name of another backup with repositories and objects that the backup lacks.
    pub fill_from: Option<String>,
    /// The data directory.
    pub data_dir: PathBuf,
    /// The database.
    pub database_url: String,
    /// The object storage, if it is not in the data directory.
    pub object_store_url: Option<String>,
    /// If true, the database was restored by other means, and only its identity changes.
    pub keep_database: bool,
    /// If true, the objects of an object storage that is not empty are replaced.
    pub replace_objects: bool,
}

/// Result of a restore.
#[derive(Debug)]
pub struct RestoreSummary {
    /// The description of the backup.
    pub manifest: BackupManifest,
    /// Number of restored repositories.
    pub repositories: u64,
    /// Number of restored objects.
    pub objects: u64,
    /// Number of repositories from the other backup.
    pub filled_repositories: u64,
    /// Number of objects from the other backup.
    pub filled_objects: u64,
}

/// What is restored, checked and with its sources.
struct Plan {
    store: Arc<FileStore>,
    manifest: BackupManifest,
    repositories: BTreeMap<i64, StoredFile>,
    objects: BTreeMap<String, ObjectEntry>,
    /// The keys of both backups, if the database is kept. It can be older than a rotation of the key between them.
    keys: Option<MergedKeys>,
    filled_repositories: u64,
    filled_objects: u64,
}

/// Restores a backup into an empty data directory and an empty database of the same kind, or into those of an
/// interrupted restore. The restored instance gets a new ID, so that its parts cannot be mixed with those of the
/// original.
///
/// # Errors
/// Returns `Error::Rejected` if the backup is damaged, from a newer version or of another kind, or if a target is not
/// empty; nothing is written then. Returns an error if the database or a disk fails.
pub async fn restore(options: RestoreOptions, report: Reporter<'_>) -> Result<RestoreSummary> {
    let kind = DatabaseKind::of_url(&options.database_url);
    if options.keep_database && kind == DatabaseKind::Sqlite {
        return Err(rejected(
            "--keep-database requires PostgreSQL; an SQLite database can be restored only to the time of a backup"
                .to_owned(),
        ));
    }
    let mut plan = plan(&options, report).await?;
    check_compatibility(&plan.manifest, kind)?;
    let data_dir = options.data_dir.clone();
    let target = {
        let directory = data_dir.clone();
        let at = data_dir.display().to_string();
        blocking(move || RestoreTarget::read(&directory).map_err(|error| rejected(format!("{at}: {error}"))))
    }
    .await?;
    let earlier = match target {
        RestoreTarget::Empty => None,
        RestoreTarget::Unfinished(earlier) => earlier,
        RestoreTarget::Occupied => return Err(rejected(format!("{} is not empty", data_dir.display()))),
    };
    // The ID of the interrupted restore is used again, because its database may be complete.
    let instance_id = match &earlier {
        Some(earlier) => earlier.instance_id.clone(),
        None => uuid::Uuid::new_v4().to_string(),
    };
    let unfinished = UnfinishedRestore {
        instance_id,
        backup: plan.manifest.id.to_string(),
    };
    let database = TargetDatabase::check(&options, &plan, earlier.as_ref()).await?;
    check_objects(&options, &plan.manifest, earlier.as_ref()).await?;
    if options.keep_database {
        database.select(&mut plan).await?;
    }

    let (directory, mark) = (data_dir.clone(), unfinished.clone());
    let mark = blocking(move || RestoreMark::begin(&directory, &mark).map_err(Error::internal)).await?;
    let mark =
        mark.ok_or_else(|| rejected(format!("another restore into {} is running", data_dir.display())))?;
    restore_key(&plan, &data_dir).await?;
    restore_repositories(&plan, &data_dir, report).await?;
    restore_objects(&plan, &options, &unfinished.instance_id, report).await?;
    report(BackupEvent::Database);
    database.restore(&options, &plan, &unfinished.instance_id).await?;
    blocking(move || mark.finish().map_err(Error::internal)).await?;
    Ok(RestoreSummary {
        repositories: plan.repositories.len() as u64,
        objects: plan.objects.len() as u64,
        filled_repositories: plan.filled_repositories,
        filled_objects: plan.filled_objects,
        manifest: plan.manifest,
    })
}

/// Reads and checks the backup, and the other backup if there is one.
async fn plan(options: &RestoreOptions, report: Reporter<'_>) -> Result<Plan> {
    let (directory, passphrase) = (options.directory.clone(), options.passphrase.clone());
    let (backup, other) = (options.backup.clone(), options.fill_from.clone());
    let (store, manifest, other) = blocking(move || {
        let store = FileStore::open(&directory, passphrase.as_ref(), Access::Read)?;
        let manifest = BackupManifest::find(&store, backup.as_deref())?;
        let other = other
            .map(|other| BackupManifest::find(&store, Some(&other)))
            .transpose()?;
        Ok((Arc::new(store), manifest, other))
    })
    .await?;
    if let Some(other) = &other
        && other.instance_id != manifest.instance_id
    {
        return Err(rejected(format!(
            "the backup {} is of another instance",
            other.id
        )));
    }
    // Before the files are read: reading them takes long.
    check_compatibility(&manifest, DatabaseKind::of_url(&options.database_url))?;
    check_for_restore(&store, &manifest.id, report).await?;
    if let Some(other) = &other {
        check_for_restore(&store, &other.id, report).await?;
    }
    let (reader, keep_database) = (Arc::clone(&store), options.keep_database);
    blocking(move || {
        let damaged = |error| super::damaged("list of objects", error);
        let mut plan = Plan {
            repositories: listings(&manifest),
            objects: manifest.read_objects(&reader).map_err(damaged)?,
            keys: match keep_database {
                true => Some(merged_keys(&reader, other.as_ref(), &manifest)?),
                false => None,
            },
            filled_repositories: 0,
            filled_objects: 0,
            store,
            manifest,
        };
        if let Some(other) = other {
            for (id, listing) in listings(&other) {
                if let Entry::Vacant(entry) = plan.repositories.entry(id) {
                    entry.insert(listing);
                    plan.filled_repositories += 1;
                }
            }
            for (key, object) in other.read_objects(&reader).map_err(damaged)? {
                if let Entry::Vacant(entry) = plan.objects.entry(key) {
                    entry.insert(object);
                    plan.filled_objects += 1;
                }
            }
        }
        Ok(plan)
    })
    .await
}

/// Reads the keys of the backups, the earlier backup first. Blocks.
fn merged_keys(
    store: &FileStore,
    earlier: Option<&BackupManifest>,
    manifest: &BackupManifest,
) -> Result<MergedKeys> {
    let mut contents = Vec::new();
    for manifest in earlier.into_iter().chain([manifest]) {
        let mut content = Vec::new();
        let read = store.read(manifest.key).and_then(|reader| {
            let mut limited = reader.take(MAX_KEY_FILE_BYTES);
            limited.read_to_end(&mut content)
        });
        read.map_err(|error| super::damaged("key file", error))?;
        contents.push(Secret::new(content));
    }
    MergedKeys::of(&contents).map_err(|error| rejected(error.to_string()))
}

fn listings(manifest: &BackupManifest) -> BTreeMap<i64, StoredFile> {
    let entries = manifest.repositories.iter();
    entries.map(|entry| (entry.project_id, entry.listing)).collect()
}

/// Checks that this version can restore a backup into a database of this kind.
fn check_compatibility(manifest: &BackupManifest, kind: DatabaseKind) -> Result<()> {
    let expected = manifest.database.kind;
    if expected != kind {
        return Err(rejected(format!(
            "the backup {} is for {expected}, but the database URL names {kind}; set --database-url or \
             HOLDFAST_DATABASE_URL to an empty database on {expected}",
            manifest.id
        )));
    }
    let known = database::known_migrations();
    if let Some(unknown) = manifest
        .database
        .migrations
        .iter()
        .find(|name| !known.contains(name))
    {
        return Err(rejected(format!(
            "the backup {} was written by the newer version {} of Holdfast ({unknown} is unknown here); restore it with that \
             version",
            manifest.id, manifest.version
        )));
    }
    // The tables are created by the first migrations, and the rest is applied to the rows.
    let applied: HashSet<&String> = manifest.database.migrations.iter().collect();
    let first: HashSet<&String> = known.iter().take(applied.len()).collect();
    if kind == DatabaseKind::Postgresql && applied != first {
        return Err(rejected(format!(
            "this version cannot create the database schema of the backup {}; restore it with the version {} of Holdfast",
            manifest.id, manifest.version
        )));
    }
    Ok(())
}

async fn restore_key(plan: &Plan, data_dir: &Path) -> Result<()> {
    let (store, key) = (Arc::clone(&plan.store), plan.manifest.key);
    let path = data_dir.join(instance_identity::KEY);
    if let Some(keys) = plan.keys.clone() {
        return blocking(move || keys.write(&path).map_err(Error::internal)).await;
    }
    blocking(move || {
        let restored = store.extract(key, &path, 0o600);
        restored.map_err(|error| super::damaged("key file", error))
    })
    .await
}

async fn restore_repositories(plan: &Plan, data_dir: &Path, report: Reporter<'_>) -> Result<()> {
    let root = data_dir.join(instance_identity::REPOSITORIES);
    let repositories = blocking(move || Ok(RepositoryStore::new(root, CONCURRENCY)?)).await?;
    let (mut done, total) = (0, plan.repositories.len() as u64);
    let mut restored = stream::iter(&plan.repositories)
        .map(|(id, listing)| restore_repository(&plan.store, &repositories, *id, *listing))
        .buffer_unordered(CONCURRENCY);
    while let Some(outcome) = restored.next().await {
        outcome?;
        done += 1;
        report(BackupEvent::Repositories { done, total });
    }
    Ok(())
}

async fn restore_repository(
    store: &Arc<FileStore>,
    repositories: &RepositoryStore,
    id: i64,
    listing: StoredFile,
) -> Result<()> {
    let reader = Arc::clone(store);
    let listing: RepositoryListing = blocking(move || {
        let read = reader.read_description(listing);
        read.map_err(|error| super::damaged(&format!("repository of the project {id}"), error))
    })
    .await?;
    create_repository(store, repositories, &RepositoryId::of_project(id), &listing).await
}
