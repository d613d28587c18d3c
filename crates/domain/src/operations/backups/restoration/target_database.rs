//! The database into which a backup is restored.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use sea_orm::sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sea_orm::sqlx::{self, Connection, Row};
use sea_orm::{EntityTrait, QuerySelect};
use storage::database::{Database, DatabaseOptions};
use storage::entities::{instances, package_blobs, projects, registry_pieces, users};

use super::{Plan, RestoreOptions};
use crate::accounts::uploads;
use crate::integrations::object_storage;
use crate::kernel::error::{Error, Result};
use crate::operations::backups::snapshot::Snapshot;
use crate::operations::backups::{blocking, damaged, postgresql, ref_changes, rejected};
use crate::operations::instance_identity::{self, DatabaseKind, UnfinishedRestore};
use crate::packages;
use crate::registry::{self, garbage_collection};
use crate::secrets::shortened;

/// The database into which a backup is restored.
pub(super) enum TargetDatabase {
    /// A file that does not exist yet.
    Sqlite(PathBuf),
    /// A database without tables, or with the empty tables of an interrupted restore.
    EmptyPostgresql(Database),
    /// A database that is complete except for its identity.
    Complete(Database),
}

impl TargetDatabase {
    /// Checks that a database is empty or belongs to the interrupted restore; or, if it is kept, to the instance of the
    /// backup. Writes nothing.
    pub(super) async fn check(
        options: &RestoreOptions,
        plan: &Plan,
        earlier: Option<&UnfinishedRestore>,
    ) -> Result<Self> {
        let manifest = &plan.manifest;
        let url = &options.database_url;
        if DatabaseKind::of_url(url) == DatabaseKind::Sqlite {
            let path = sqlite_path(url)?;
            if !path.exists() {
                // An interrupted restore into the data directory is replaced with all its files.
                let is_replaced = earlier.is_some() && path.starts_with(&options.data_dir);
                let log = log_files(&path).find(|log| log.exists());
                return match log.filter(|_| !is_replaced) {
                    None => Ok(Self::Sqlite(path)),
                    // SQLite would apply it to the restored database.
                    Some(log) => Err(rejected(format!(
                        "{} belongs to an earlier database; move it away",
                        log.display()
                    ))),
                };
            }
            // The earlier restore was killed after it renamed the file.
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
        let identity = instances::get(database.read()).await.ok().flatten();
        let (found, key) = identity
            .map(|identity| (identity.instance_id, identity.key_fingerprint))
            .unzip();
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
                    "a server or command uses the database; stop it, or set --database-url to the restored database"
                        .to_owned(),
                ));
            }
            check_key(options, plan, key.as_deref())?;
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
        // The earlier restore was killed after it created the schema.
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

    /// Removes from a plan the repositories and objects that belong to no row of a kept database.
    pub(super) async fn select(&self, plan: &mut Plan) -> Result<()> {
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
        let mut pieces: HashSet<String> = pieces.into_iter().collect();
        // The schema of the database can be older than packages.
        if database.has_table("package_blobs").await? {
            let blobs = package_blobs::Entity::find()
                .select_only()
                .column(package_blobs::Column::Key);
            let blobs: Vec<String> = blobs.into_tuple().all(database.read()).await?;
            pieces.extend(blobs);
        }
        plan.objects.retain(|key, _| {
            let is_piece = registry::is_object_key(key) || packages::is_object_key(key);
            let is_deleted = uploads::project_of_key(key).is_some_and(|id| !known.contains(&id));
            !is_deleted && (!is_piece || pieces.contains(key))
        });
        Ok(())
    }

    /// Restores the database and records the new identity in it and in the data directory.
    pub(super) async fn restore(
        self,
        options: &RestoreOptions,
        plan: &Plan,
        instance_id: &str,
    ) -> Result<()> {
        let copy = &plan.manifest.database;
        let temporary = options.data_dir.join(object_storage::SPOOL);
        match self {
            Self::Sqlite(path) => {
                let unfinished = with_suffix(&path, ".restoring");
                let abandoned = log_files(&unfinished).chain([unfinished.clone()]);
                let abandoned: Vec<PathBuf> = abandoned.collect();
                blocking(move || remove_all(&abandoned).map_err(Error::internal)).await?;
                let (store, target, file) = (Arc::clone(&plan.store), unfinished.clone(), copy.file);
                blocking(move || {
                    if let Some(parent) = target.parent() {
                        std::fs::create_dir_all(parent).map_err(Error::internal)?;
                    }
                    let file =
                        file.ok_or_else(|| rejected("the copy of the database is incomplete".to_owned()))?;
                    let restored = store.extract(file, &target, 0o600);
                    restored.map_err(|error| damaged("the copy of the database", error))
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
                        // SQLite would apply a log of an interrupted attempt to the new file.
                        remove_all(&log_files(&path).collect::<Vec<_>>())?;
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

/// Checks that the backups have the key of a kept database.
fn check_key(options: &RestoreOptions, plan: &Plan, fingerprint: Option<&str>) -> Result<()> {
    let missing = fingerprint.filter(|key| !plan.keys.as_ref().is_some_and(|keys| keys.contains(key)));
    let Some(missing) = missing else {
        return Ok(());
    };
    let advice = match options.fill_from {
        None => "add --fill-from with the name of the last backup before the time of the database",
        Some(_) => "restore the database to another time, or use a backup with this key",
    };
    Err(rejected(format!(
        "the backups lack the key {} of the database, because the key was replaced between the time of the \
         database and the backup {}; {advice}",
        shortened(missing),
        plan.manifest.id
    )))
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

/// Returns the paths of the files with changes that SQLite applies to a database when it opens the database.
fn log_files(path: &Path) -> impl Iterator<Item = PathBuf> {
    let suffixes = ["-wal", "-shm", "-journal"].into_iter();
    suffixes.map(|suffix| with_suffix(path, suffix))
}

/// Deletes the files that exist.
fn remove_all(paths: &[PathBuf]) -> io::Result<()> {
    for path in paths {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
