//! Restore of a backup into an empty data directory.
//!
//! Everything is checked before anything is written. A mark in the data directory is written first and removed last, so that
//! no server starts on a directory that is not complete, and another restore can replace it.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{self, Seek};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use futures_util::{StreamExt, stream};
use git::{RepositoryId, RepositoryStore};
use sea_orm::sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sea_orm::sqlx::{self, Connection, Row};
use sea_orm::{EntityTrait, QuerySelect};
use storage::database::{self, Database, DatabaseOptions};
use storage::entities::{instances, projects, registry_pieces, users};

use super::file_store::{Access, FileStore, StoredFile};
use super::manifest::{BackupManifest, ObjectEntry, RepositoryListing};
use super::snapshot::Snapshot;
use super::verification::{check_for_restore, create_repository};
use super::{BackupEvent, Reporter, blocking, postgresql, ref_changes, rejected};
use crate::integrations::object_storage::{self, ObjectStorage};
use crate::kernel::error::{Error, Result};
use crate::operations::instance_identity::{
    self, DatabaseKind, RestoreMark, RestoreTarget, UnfinishedRestore,
};
use crate::registry::{self, garbage_collection};
use crate::secrets::Secret;

/// Repositories that are restored at a time.
const CONCURRENCY: usize = 4;

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
    filled_repositories: u64,
    filled_objects: u64,
}

/// Restores a backup into an empty data directory and an empty database of the same kind, or into those of an interrupted
/// restore. The restored instance gets a new ID, so that its parts cannot be mixed with those of the original.
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
    let database = TargetDatabase::check(&options, &plan.manifest, earlier.as_ref()).await?;
    if options.keep_database {
        database.select(&mut plan).await?;
    }

    let (directory, mark) = (data_dir.clone(), unfinished.clone());
    let mark = blocking(move || RestoreMark::begin(&directory, &mark).map_err(Error::internal)).await?;
    let mark =
        mark.ok_or_else(|| rejected(format!("another restore into {} is running", data_dir.display())))?;
    restore_key(&plan, &data_dir).await?;
    restore_repositories(&plan, &data_dir, report).await?;
    restore_objects(&plan, &data_dir, options.object_store_url.as_deref(), report).await?;
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
    let reader = Arc::clone(&store);
    blocking(move || {
        let damaged = |error| super::damaged("list of objects", error);
        let mut plan = Plan {
            repositories: listings(&manifest),
            objects: manifest.read_objects(&reader).map_err(damaged)?,
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

async fn restore_objects(
    plan: &Plan,
    data_dir: &Path,
    url: Option<&str>,
    report: Reporter<'_>,
) -> Result<()> {
    let storage = ObjectStorage::open(url, data_dir)?;
    let (mut done, total) = (0, plan.objects.len() as u64);
    let mut restored = stream::iter(plan.objects.values())
        .map(|entry| restore_object(&plan.store, &storage, entry))
        .buffer_unordered(CONCURRENCY);
    while let Some(outcome) = restored.next().await {
        outcome?;
        done += 1;
        report(BackupEvent::Objects { done, total });
    }
    Ok(())
}

async fn restore_object(store: &Arc<FileStore>, storage: &ObjectStorage, entry: &ObjectEntry) -> Result<()> {
    let (store, spool, file) = (Arc::clone(store), storage.clone(), entry.file);
    // Read completely before it is stored, because its end decides whether it is sound.
    let spooled = blocking(move || {
        let copy = || -> io::Result<File> {
            let mut spooled = spool.spool()?;
            io::copy(&mut store.read(file)?, &mut spooled)?;
            spooled.rewind()?;
            Ok(spooled)
        };
        copy().map_err(|error| super::damaged("object", error))
    })
    .await?;
    Ok(storage
        .put(&entry.key, tokio::fs::File::from_std(spooled))
        .await?)
}

/// The database into which a backup is restored.
enum TargetDatabase {
    /// A file that does not exist yet.
    Sqlite(PathBuf),
    /// A database without tables, or with the empty tables of an interrupted restore.
    EmptyPostgresql(Database),
    /// A database that is complete except for its identity.
    Complete(Database),
}

impl TargetDatabase {
    /// Checks that a database is empty or belongs to the interrupted restore; or, if it is kept, to the instance of the backup.
    /// Writes nothing.
    async fn check(
        options: &RestoreOptions,
        manifest: &BackupManifest,
        earlier: Option<&UnfinishedRestore>,
    ) -> Result<Self> {
        let url = &options.database_url;
        if DatabaseKind::of_url(url) == DatabaseKind::Sqlite {
            let path = sqlite_path(url)?;
            if !path.exists() {
                return Ok(Self::Sqlite(path));
            }
            // Killed after the file got its name.
            let is_own = match earlier {
                Some(_) if path.starts_with(&options.data_dir) => true,
                Some(earlier) => sqlite_instance(&path).await.as_ref() == Some(&earlier.instance_id),
                None => false,
            };
            return match is_own {
                true => Ok(Self::Sqlite(path)),
                false => Err(rejected(format!("{} already exists", path.display()))),
            };
        }
        // One connection, so that others can be recognized.
        let connection = DatabaseOptions {
            max_connections: 1,
            must_exist: true,
            ..DatabaseOptions::default()
        };
        let database = Database::connect(url, &connection).await?;
        if postgresql::is_empty(&database).await? {
            return match options.keep_database {
                true => Err(rejected(
                    "the database is empty; restore it first, or omit --keep-database".to_owned(),
                )),
                false => Ok(Self::EmptyPostgresql(database)),
            };
        }
        let found = instances::get(database.read()).await.ok().flatten();
        let found = found.map(|identity| identity.instance_id);
        let is_of_earlier = earlier.is_some_and(|earlier| found.as_ref() == Some(&earlier.instance_id));
        if options.keep_database {
            if found.is_none() || !(is_of_earlier || found == manifest.instance_id) {
                return Err(rejected(format!(
                    "the database does not belong to the instance of the backup {}; set --database-url to the restored \
                     database",
                    manifest.id
                )));
            }
            if postgresql::is_in_use(&database).await? {
                return Err(rejected(
                    "a server or command uses the database; set --database-url to the restored database, and stop the server"
                        .to_owned(),
                ));
            }
            return Ok(Self::Complete(database));
        }
        if is_of_earlier {
            let same = earlier.is_some_and(|earlier| earlier.backup == manifest.id.as_str());
            return match same {
                true => Ok(Self::Complete(database)),
                false => Err(rejected(format!(
                    "the database contains the unfinished restore of the backup {}; restore that backup, or empty the \
                     database",
                    earlier.map(|earlier| earlier.backup.as_str()).unwrap_or_default()
                ))),
            };
        }
        // Killed after the schema was created.
        let user = users::Entity::find()
            .select_only()
            .column(users::Column::Id)
            .limit(1);
        let user: Option<i64> = user.into_tuple().one(database.read()).await?;
        match user.is_none() && found.is_none() && earlier.is_some() {
            true => Ok(Self::EmptyPostgresql(database)),
            false => Err(rejected("the database is not empty".to_owned())),
        }
    }

    /// Removes repositories and parts of images from a plan that belong to no row of a kept database.
    async fn select(&self, plan: &mut Plan) -> Result<()> {
        let Self::Complete(database) = self else {
            return Ok(());
        };
        let known = projects::Entity::find()
            .select_only()
            .column(projects::Column::Id);
        let known: Vec<i64> = known.into_tuple().all(database.read()).await?;
        let known: HashSet<i64> = known.into_iter().collect();
        plan.repositories.retain(|id, _| known.contains(id));
        let pieces = registry_pieces::Entity::find()
            .select_only()
            .column(registry_pieces::Column::Key);
        let pieces: Vec<String> = pieces.into_tuple().all(database.read()).await?;
        let pieces: HashSet<String> = pieces.into_iter().collect();
        plan.objects
            .retain(|key, _| !registry::is_object_key(key) || pieces.contains(key));
        Ok(())
    }

    /// Restores the database and records the new identity in it and in the data directory.
    async fn restore(self, options: &RestoreOptions, plan: &Plan, instance_id: &str) -> Result<()> {
        let copy = &plan.manifest.database;
        let temporary = options.data_dir.join(object_storage::SPOOL);
        match self {
            Self::Sqlite(path) => {
                let unfinished = with_suffix(&path, ".restoring");
                for suffix in ["", "-wal", "-shm"] {
                    let path = with_suffix(&unfinished, suffix);
                    blocking(move || remove_if_exists(&path).map_err(Error::internal)).await?;
                }
                let (store, target, file) = (Arc::clone(&plan.store), unfinished.clone(), copy.file);
                blocking(move || {
                    if let Some(parent) = target.parent() {
                        std::fs::create_dir_all(parent).map_err(Error::internal)?;
                    }
                    let file =
                        file.ok_or_else(|| rejected("the copy of the database is incomplete".to_owned()))?;
                    let restored = store.extract(file, &target, 0o600);
                    restored.map_err(|error| super::damaged("the copy of the database", error))
                })
                .await?;
                let options_of_copy = DatabaseOptions {
                    must_exist: true,
                    ..DatabaseOptions::default()
                };
                let database = Database::connect(&sqlite_url(&unfinished), &options_of_copy).await?;
                finish(options, plan, database, instance_id).await?;
                blocking(move || {
                    let rename = || -> io::Result<()> {
                        std::fs::rename(&unfinished, &path)?;
                        match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                            Some(parent) => File::open(parent)?.sync_all(),
                            None => Ok(()),
                        }
                    };
                    rename().map_err(Error::internal)
                })
                .await
            }
            Self::EmptyPostgresql(database) => {
                let count = copy.migrations.len();
                database
                    .migrate_first(u32::try_from(count).map_err(Error::internal)?)
                    .await?;
                let snapshot = Snapshot::extract(&plan.store, copy, &temporary).await?;
                postgresql::restore(&database, &snapshot, instance_id).await?;
                finish(options, plan, database, instance_id).await
            }
            Self::Complete(database) => finish(options, plan, database, instance_id).await,
        }
    }
}

/// Migrates a restored database, records the identity, and deletes the rows that are not reliable.
async fn finish(options: &RestoreOptions, plan: &Plan, database: Database, instance_id: &str) -> Result<()> {
    database.migrate().await?;
    let renewed = instance_identity::renew(
        &options.data_dir,
        &options.database_url,
        &database,
        instance_id.to_owned(),
    );
    renewed.await?;
    garbage_collection::reset_after_restore(&database).await?;
    if !options.keep_database {
        let manifest = &plan.manifest;
        ref_changes::announce(&database, &manifest.moved_refs, manifest.created_at).await?;
    }
    Ok(database.close().await?)
}

fn sqlite_path(url: &str) -> Result<PathBuf> {
    let options = SqliteConnectOptions::from_str(url);
    let options = options.map_err(|_| rejected("the database URL is malformed".to_owned()))?;
    Ok(options.get_filename().to_path_buf())
}

/// Returns the ID of the instance that a file belongs to. Changes nothing.
async fn sqlite_instance(path: &Path) -> Option<String> {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .read_only(true)
        .immutable(true);
    let mut connection = SqliteConnection::connect_with(&options).await.ok()?;
    let row = sqlx::query("SELECT instance_id FROM instances")
        .fetch_one(&mut connection)
        .await
        .ok()?;
    row.try_get(0).ok()
}

fn sqlite_url(path: &Path) -> String {
    let path = path.to_string_lossy();
    format!(
        "sqlite://{}",
        percent_encoding::utf8_percent_encode(&path, percent_encoding::NON_ALPHANUMERIC)
    )
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn remove_if_exists(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
