//! The identity of an instance, by which its data directory and its database know each other.
//!
//! The data directory has the key, an ID of the repository store and [`FILE`] with the ID of the instance and the kind of
//! its database. The database has one row with the ID of the instance, a fingerprint of the key and the ID of the store. A
//! first start writes them in the order key, store ID, row, file. A start that was killed in between is completed by the
//! next one, because key and store ID match the row. See ADR 26.

mod database_lock;
mod directory;
mod serve_lock;
mod unfinished_restore;

use std::fmt;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use sea_orm::{ConnectionTrait, DbErr, Statement};
use serde::{Deserialize, Serialize};

use crate::secrets::{KeyFile, Keyring, shortened};
use storage::database::Database;
use storage::database_copy::{self, Mark};
use storage::entities::instances::{self, InstanceIdentity};

pub use database_lock::{DATABASE_LOCK, DatabaseLock, lock_database, lock_database_for_move};
use directory::DirectoryContents;
pub use serve_lock::{SERVE_LOCK, ServeLock, lock_directory};
pub use unfinished_restore::{RESTORE_FILE, RestoreMark, RestoreTarget, UnfinishedRestore};

/// The file of the data directory that names the instance.
pub const FILE: &str = "instance.json";
/// The key file of the data directory.
pub const KEY: &str = "secret.key";
/// The directory of the repositories in the data directory.
pub const REPOSITORIES: &str = "repositories";
/// The file in the directory of the repositories that names the store.
const STORE: &str = ".store-id";

/// How an instance is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// It is created when there is none.
    Create,
    /// It must exist.
    Existing,
}

/// The kind of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DatabaseKind {
    /// SQLite.
    Sqlite,
    /// PostgreSQL.
    Postgresql,
}

impl DatabaseKind {
    /// The kind that a database URL names.
    #[must_use]
    pub fn of_url(url: &str) -> Self {
        match url.starts_with("sqlite:") {
            true => Self::Sqlite,
            false => Self::Postgresql,
        }
    }
}

impl fmt::Display for DatabaseKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sqlite => "SQLite",
            Self::Postgresql => "PostgreSQL",
        })
    }
}

/// Why a data directory and a database cannot be used together. The path is that of the data directory.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The directory is not that of an instance.
    #[error(
        "{} is no data directory of a server; start the server once, or name another with --data-dir",
        .0.display()
    )]
    NoDirectory(PathBuf),
    /// The database is of another kind.
    #[error(
        "the data directory {} belongs to an instance on {expected}, but the database URL names {found}; set --database-url \
         or HOLDFAST_DATABASE_URL to the database of the instance. `holdfast admin migrate-database` moves an instance to the \
         other kind of database", .path.display()
    )]
    Kind {
        /// The data directory.
        path: PathBuf,
        /// The kind that the directory names.
        expected: DatabaseKind,
        /// The kind that the URL names.
        found: DatabaseKind,
    },
    /// The database belongs to another instance, or to none.
    #[error(
        "the data directory {} belongs to the instance {expected}, but the database belongs to {}; set --data-dir and \
         --database-url to the same instance. If the database is a copy from an older version, remove {FILE} from the \
         directory and start the server", .path.display(), instance(.found)
    )]
    Instance {
        /// The data directory.
        path: PathBuf,
        /// The instance that the directory names.
        expected: String,
        /// The instance that the database names.
        found: Option<String>,
    },
    /// The database was used with another key or other repositories.
    #[error(
        "the database belongs to the instance {} with the key {} and the repository store {}, but the data directory {} has \
         the key {} and the repository store {}; nodes of one instance share one data directory: set --data-dir to it, or \
         --database-url to another database",
        .expected.instance_id, shortened(&.expected.key_fingerprint), .expected.repository_store_id, .path.display(),
        listed(.keys), .store.as_deref().unwrap_or("none")
    )]
    Foreign {
        /// The data directory.
        path: PathBuf,
        /// The identity that the database has.
        expected: Box<InstanceIdentity>,
        /// The fingerprints of the keys in the directory.
        keys: Vec<String>,
        /// The ID of the repository store in the directory.
        store: Option<String>,
    },
    /// The database of an older version is in use, and the directory has no key or no repositories.
    #[error(
        "the database belongs to an instance, but the data directory {} has {missing}; set --data-dir to the data directory \
         of that instance, or --database-url to another database", .path.display()
    )]
    Missing {
        /// The data directory.
        path: PathBuf,
        /// The part that is missing.
        missing: &'static str,
    },
    /// The database is empty, though there is an instance.
    #[error(
        "the data directory {} belongs to an instance, but the database has no users; set --database-url or \
         HOLDFAST_DATABASE_URL to the database of the instance", .0.display()
    )]
    EmptyDatabase(PathBuf),
    /// The database is an unfinished copy.
    #[error(
        "the database is an unfinished copy of the instance {0}; run `holdfast admin migrate-database` again, which finishes \
         the copy, or set --database-url or HOLDFAST_DATABASE_URL to the original database"
    )]
    Unfinished(String),
    /// The instance uses a copy of the database.
    #[error(
        "the instance was moved from this database to {to} at {}, and its repositories may have changed since; set --database-url \
         or HOLDFAST_DATABASE_URL to the {to} database. To go back, run `holdfast admin migrate-database` with that database, \
         and an empty database as the target", .at.to_rfc3339()
    )]
    Moved {
        /// The kind of the database that the instance uses.
        to: String,
        /// When the instance was moved.
        at: DateTime<Utc>,
    },
    /// Another process moves the database.
    #[error(
        "the database of the data directory {} is being moved; wait until `holdfast admin migrate-database` has finished",
        .0.display()
    )]
    Moving(PathBuf),
    /// Other processes use the database, so it cannot be moved.
    #[error(
        "servers, workers or commands use the database of the data directory {}; stop them on all nodes before the database is \
         moved", .0.display()
    )]
    InUse(PathBuf),
    /// A file of the directory has no valid content.
    #[error(
        "{} is damaged: {cause}; remove it and start the server, which writes it again from the database", .path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// Another process serves the directory.
    #[error(
        "the data directory {} is served by the process {process}; on SQLite an instance has one server: stop the other one, \
         or use PostgreSQL to run several", .path.display()
    )]
    Served {
        /// The data directory.
        path: PathBuf,
        /// The ID of the process, as far as it is known.
        process: String,
    },
    /// A restore into the directory is running or was interrupted.
    #[error(
        "the data directory {} contains an unfinished restore; run `holdfast restore` again, which replaces it", .0.display()
    )]
    UnfinishedRestore(PathBuf),
    /// A file cannot be read or written.
    #[error("{}: {cause}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// The key file cannot be read.
    #[error("key file: {0}")]
    Key(#[from] crate::secrets::Error),
    /// The database cannot be read.
    #[error("database: {0}")]
    Database(#[from] DbErr),
}

fn instance(found: &Option<String>) -> String {
    match found {
        Some(id) => format!("the instance {id}"),
        None => "no instance".to_owned(),
    }
}

fn listed(fingerprints: &[String]) -> String {
    match fingerprints {
        [] => "none".to_owned(),
        keys => keys
            .iter()
            .map(|key| shortened(key))
            .collect::<Vec<_>>()
            .join(", "),
    }
}

/// A data directory whose file was read, before the database is opened.
#[derive(Debug)]
pub struct DataDirectory {
    path: PathBuf,
    opening: OpenMode,
    kind: DatabaseKind,
    record: Option<directory::IdentityFile>,
    must_exist: bool,
}

impl DataDirectory {
    /// Reads the file of a data directory and compares it with a database URL. Creates nothing. Blocks.
    ///
    /// # Errors
    /// [`Error::UnfinishedRestore`], [`Error::NoDirectory`], [`Error::Kind`], [`Error::Damaged`], [`Error::Io`].
    pub fn open(path: &Path, database_url: &str, opening: OpenMode) -> Result<Self, Error> {
        if path.join(RESTORE_FILE).exists() {
            return Err(Error::UnfinishedRestore(path.to_owned()));
        }
        let record = directory::IdentityFile::read(path)?;
        let contents = DirectoryContents::read(path)?;
        if opening == OpenMode::Existing && record.is_none() && !contents.has_key {
            return Err(Error::NoDirectory(path.to_owned()));
        }
        let kind = DatabaseKind::of_url(database_url);
        if let Some(record) = &record
            && record.database != kind
        {
            return Err(Error::Kind {
                path: path.to_owned(),
                expected: record.database,
                found: kind,
            });
        }
        let must_exist = opening == OpenMode::Existing || record.is_some() || contents.has_repositories;
        Ok(Self {
            path: path.to_owned(),
            opening,
            kind,
            record,
            must_exist,
        })
    }

    /// Whether the database must exist.
    #[must_use]
    pub fn needs_database(&self) -> bool {
        self.must_exist
    }

    /// Returns the ID of the instance, if the directory names it.
    #[must_use]
    pub fn instance_id(&self) -> Option<&str> {
        self.record.as_ref().map(|record| record.instance_id.as_str())
    }

    /// Refuses a database that does not belong to the data directory. Creates nothing and runs before migrations.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn check(&self, database: &Database) -> Result<(), Error> {
        match database_copy::mark(database).await? {
            Some(Mark::Unfinished { instance_id }) => return Err(Error::Unfinished(instance_id)),
            Some(Mark::Moved { to, at }) => return Err(Error::Moved { to, at }),
            None => {}
        }
        // The directory is read after the database: other nodes write its key and its store ID before the row.
        let identity = recorded_in(database).await?;
        let is_in_use = is_in_use(database).await?;
        let path = self.path.clone();
        let contents = blocking(move || DirectoryContents::read(&path)).await?;
        if let Some(record) = &self.record
            && identity.as_ref().map(|identity| &identity.instance_id) != Some(&record.instance_id)
        {
            return Err(Error::Instance {
                path: self.path.clone(),
                expected: record.instance_id.clone(),
                found: identity.map(|identity| identity.instance_id),
            });
        }
        if let Some(identity) = identity {
            return self.compare(identity, contents);
        }
        // The instance is new or from an older version.
        let missing = |missing| Error::Missing {
            path: self.path.clone(),
            missing,
        };
        match is_in_use {
            DatabaseUse::No if self.must_exist => Err(Error::EmptyDatabase(self.path.clone())),
            DatabaseUse::No => Ok(()),
            _ if !contents.has_key => Err(missing("no key")),
            DatabaseUse::WithProjects if !contents.has_repositories => Err(missing("no repositories")),
            DatabaseUse::WithUsers | DatabaseUse::WithProjects => Ok(()),
        }
    }

    fn compare(&self, identity: InstanceIdentity, contents: DirectoryContents) -> Result<(), Error> {
        let keys = match contents.has_key {
            true => KeyFile::read(&self.path.join(KEY))?.fingerprints(),
            false => Vec::new(),
        };
        let is_own = keys.contains(&identity.key_fingerprint)
            && contents.store.as_ref() == Some(&identity.repository_store_id);
        match is_own {
            true => Ok(()),
            false => Err(Error::Foreign {
                path: self.path.clone(),
                expected: Box::new(identity),
                keys,
                store: contents.store,
            }),
        }
    }

    /// Records the identity in the database and in the data directory where it is missing, if instances are created. Runs
    /// after migrations, when the key and the directory of the repositories exist.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn claim(&self, database: &Database, keyring: &Keyring) -> Result<(), Error> {
        if self.opening == OpenMode::Existing || self.record.is_some() {
            return Ok(());
        }
        if instances::get(database.read()).await?.is_none() {
            let path = self.path.clone();
            let store = blocking(move || directory::store_id(&path)).await?;
            instances::put_first(database.write(), new_identity(store, keyring)).await?;
        }
        self.finish(database).await
    }

    /// Writes the file of the identity that the database has.
    async fn finish(&self, database: &Database) -> Result<(), Error> {
        let (path, kind) = (self.path.clone(), self.kind);
        // Another node may have been faster.
        let Some(identity) = instances::get(database.write()).await? else {
            return Err(Error::EmptyDatabase(path));
        };
        let (contents, path) = blocking(move || Ok((DirectoryContents::read(&path)?, path))).await?;
        self.compare(identity.clone(), contents)?;
        let record = directory::IdentityFile::new(identity.instance_id, kind);
        blocking(move || record.write(&path)).await
    }
}

/// Assigns new IDs to a restored data directory and its database, which distinguish them from the saved instance. Can be
/// repeated with the same `instance_id`.
///
/// # Errors
/// [`Error::Foreign`] when the key is not that of the database, and [`Error`] otherwise.
pub async fn renew(
    path: &Path,
    database_url: &str,
    database: &Database,
    instance_id: String,
) -> Result<(), Error> {
    let keyring = Keyring::open_existing(&path.join(KEY))?;
    if let Some(saved) = instances::get(database.write()).await?
        && keyring.adopt(&saved.key_fingerprint).is_err()
    {
        return Err(Error::Foreign {
            path: path.to_owned(),
            expected: Box::new(saved),
            keys: KeyFile::read(&path.join(KEY))?.fingerprints(),
            store: None,
        });
    }
    let owned = path.to_owned();
    let store = blocking(move || directory::store_id(&owned)).await?;
    let identity = InstanceIdentity {
        instance_id,
        ..new_identity(store, &keyring)
    };
    instances::replace(database.write(), identity).await?;
    let directory = DataDirectory {
        path: path.to_owned(),
        opening: OpenMode::Create,
        kind: DatabaseKind::of_url(database_url),
        record: None,
        must_exist: true,
    };
    directory.finish(database).await
}

/// Records in a data directory that its instance uses a database of another kind. Blocks.
///
/// # Errors
/// [`Error::Instance`] if the directory names another instance, and [`Error::Io`].
pub fn change_kind(path: &Path, instance_id: &str, kind: DatabaseKind) -> Result<(), Error> {
    directory::IdentityFile::new(instance_id.to_owned(), kind).replace(path)
}

/// Returns the identity that a database records, if it has one. The schema of the database may be older.
///
/// # Errors
/// Returns the error of the database.
pub async fn recorded_in(database: &Database) -> Result<Option<InstanceIdentity>, DbErr> {
    match database.has_table("instances").await? {
        true => instances::get(database.read()).await,
        false => Ok(None),
    }
}

fn new_identity(store: String, keyring: &Keyring) -> InstanceIdentity {
    InstanceIdentity {
        instance_id: uuid::Uuid::new_v4().to_string(),
        repository_store_id: store,
        key_fingerprint: keyring.fingerprint(),
    }
}

/// Whether a database is in use, judged by tables that exist in every version of the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DatabaseUse {
    No,
    WithUsers,
    WithProjects,
}

async fn is_in_use(database: &Database) -> Result<DatabaseUse, Error> {
    if !has_row(database, "users").await? {
        return Ok(DatabaseUse::No);
    }
    match has_row(database, "projects").await? {
        true => Ok(DatabaseUse::WithProjects),
        false => Ok(DatabaseUse::WithUsers),
    }
}

async fn has_row(database: &Database, table: &str) -> Result<bool, DbErr> {
    if !database.has_table(table).await? {
        return Ok(false);
    }
    let statement = Statement::from_string(database.backend(), format!("SELECT 1 FROM {table} LIMIT 1"));
    Ok(database.read().query_one_raw(statement).await?.is_some())
}

async fn blocking<T, F>(work: F) -> Result<T, Error>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, Error> + Send + 'static,
{
    let done = git::run_blocking(work).await;
    done.map_err(|error| Error::Io {
        path: PathBuf::new(),
        cause: std::io::Error::other(error),
    })?
}

impl From<Error> for crate::kernel::error::Error {
    fn from(error: Error) -> Self {
        Self::Rejected(error.to_string().into())
    }
}
