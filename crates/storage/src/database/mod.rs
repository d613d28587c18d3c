//! The database: SQLite in a file, or PostgreSQL.
//!
//! SQLite allows one writer at a time. To avoid `SQLITE_BUSY`, all writes use a pool with a single connection,
//! and their transactions start as writers. Reads use a separate pool of read-only connections. With PostgreSQL
//! both are the same pool.
//!
//! Acknowledged commits are durable. SQLite runs in WAL mode with `synchronous=FULL`, which syncs the log at
//! every commit; PostgreSQL syncs by default.

use std::{
    any::Any,
    collections::BTreeSet,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use migration::{Migrator, MigratorTrait};
use sea_orm::{
    AccessMode, ConnectOptions, ConnectionTrait, DatabaseBackend, DatabaseConnection, DatabaseTransaction,
    DbErr, IsolationLevel, SqliteTransactionMode, Statement, TransactionOptions,
};
use tokio::sync::watch;

mod connections;
mod migration_steps;
mod pool_usage;
mod postgresql;
mod request;
mod snapshot_probe;
mod sqlite;
mod statement_limit;
#[cfg(test)]
pub(crate) mod testing;
mod transaction;
mod versioned_cache;
// A function that is not registered as a test is an error.
#[cfg(test)]
#[warn(dead_code)]
mod postgresql_tests;
#[cfg(test)]
#[warn(dead_code)]
mod request_tests;
#[cfg(test)]
#[warn(dead_code)]
mod tests;
#[cfg(test)]
#[warn(dead_code)]
mod transaction_tests;
mod version;
mod violation;
#[cfg(test)]
mod wire_proxy;

use snapshot_probe::SnapshotProbe;
use version::{DatabaseState, LogIndex};

pub use connections::Connections;
pub use pool_usage::PoolUsage;
pub use request::{is_time_exceeded, measure, refusals, use_share};
pub use sqlite::sqlite_file;
pub use statement_limit::allow_statements_of;
pub use transaction::wake_on_commit;
pub use version::DataVersion;
pub use versioned_cache::VersionedCache;
pub use violation::{Violation, fault, is_busy, is_deadlock};

/// Duration from which a statement is logged, without its values.
const SLOW_STATEMENT: Duration = Duration::from_secs(1);

/// Callback for every executed statement, with its text without values and its duration.
pub type StatementObserver = Arc<dyn Fn(&str, Duration) + Send + Sync>;

/// Connection options.
#[derive(Clone)]
pub struct DatabaseOptions {
    /// Maximum number of connections: all of them with PostgreSQL, the reading ones with SQLite.
    pub max_connections: u32,
    /// How long to wait for a free connection, or for another process that writes to a SQLite file.
    pub acquire_timeout: Duration,
    /// Called for every statement; for metrics, and for tests that count statements.
    pub observer: Option<StatementObserver>,
    /// If true, the file of a SQLite database is not created.
    pub must_exist: bool,
    /// If true, the connections cannot write, and do not change the file of a SQLite database.
    pub read_only: bool,
    /// Time after which PostgreSQL cancels a statement, except in migrations and [work with a longer
    /// limit](allow_statements_of); zero for never.
    pub statement_timeout: Duration,
    /// If false, a crash of the system can damage a SQLite database. Only for databases that no crash has to survive.
    pub durable: bool,
}

impl Default for DatabaseOptions {
    fn default() -> Self {
        Self {
            max_connections: 10,
            acquire_timeout: Duration::from_secs(30),
            observer: None,
            must_exist: false,
            read_only: false,
            statement_timeout: Duration::ZERO,
            durable: true,
        }
    }
}

impl fmt::Debug for DatabaseOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatabaseOptions")
            .field("max_connections", &self.max_connections)
            .field("acquire_timeout", &self.acquire_timeout)
            .finish_non_exhaustive()
    }
}

/// Reason why a database cannot be opened or prepared.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The URL is not supported. The message does not contain it, because it may include a password.
    #[error("the database URL must begin with sqlite:// and name a file, or with postgres://")]
    UnsupportedUrl,
    /// There is no such file of a SQLite database.
    #[error("{} does not exist; set --database-url or HOLDFAST_DATABASE_URL to the database of the instance", .0.display())]
    Missing(std::path::PathBuf),
    /// The file of a SQLite database cannot be created.
    #[error("cannot create the database file: {0}")]
    File(#[from] std::io::Error),
    /// No connection to PostgreSQL can be opened.
    #[error("cannot connect to PostgreSQL at {address}: {reason}")]
    Unreachable {
        /// Host and port, or the socket.
        address: String,
        /// The reason, and what to do.
        reason: String,
    },
    /// A connection pooler between this process and PostgreSQL does not provide sessions.
    #[error(
        "the connections to PostgreSQL share sessions, as through PgBouncer with pool_mode = transaction, but Holdfast needs \
         sessions for its settings and prepared statements; set pool_mode = session (docs/OPERATIONS.md), or connect to \
         PostgreSQL directly"
    )]
    SharedSessions,
    /// A newer version of Holdfast has changed the schema; contains the first unknown migration.
    #[error(
        "the database was migrated by a newer version of Holdfast ({0} is unknown here); start that version, or restore a \
         backup from before the upgrade"
    )]
    NewerSchema(String),
    /// An older version of Holdfast created the schema, and the database is opened read only.
    #[error(
        "the database has the schema of an older version of Holdfast; start the server once, which migrates the schema"
    )]
    OlderSchema,
    /// The database returned an error.
    #[error("{0}")]
    Database(#[from] DbErr),
}

/// A handle on the database; cheap to clone.
#[derive(Debug, Clone)]
pub struct Database {
    reader: Connections,
    writer: Connections,
    work_committed: watch::Sender<()>,
    versions: Arc<VersionSource>,
    /// Number of explicit invalidations of cached data.
    invalidations: Arc<AtomicU64>,
    guard: Option<Guard>,
}

/// Source of versions of the database's state.
#[derive(Debug)]
enum VersionSource {
    /// SQLite.
    LogIndex(LogIndex),
    /// PostgreSQL.
    Probe(SnapshotProbe),
}

/// Value that exists as long as a handle on the database.
#[derive(Clone)]
struct Guard(#[expect(dead_code, reason = "held until it is dropped")] Arc<dyn Any + Send + Sync>);

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Guard")
    }
}

/// Receiver for commits that enqueued jobs. A commit during processing is reported by the next call.
#[derive(Debug)]
pub struct CommitReceiver(watch::Receiver<()>);

impl CommitReceiver {
    /// Waits for a commit since the last call.
    pub async fn wait(&mut self) {
        // The sender exists as long as the database; after that there are no commits.
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Database {
    /// Connects to `sqlite://path`, creating the file if needed, or to `postgres://...`.
    ///
    /// # Errors
    /// [`Error::UnsupportedUrl`], [`Error::Missing`], [`Error::File`], [`Error::Unreachable`],
    /// [`Error::SharedSessions`], or a database error.
    pub async fn connect(url: &str, options: &DatabaseOptions) -> Result<Self, Error> {
        if url.starts_with("sqlite:") {
            let path = sqlite::prepare_file(url, options.must_exist)?;
            tracing::debug!(path = %path.display(), "prepared the SQLite database file");
            let reader = open(sqlite::reader(base(url, options), options), options).await?;
            let writer = open(sqlite::writer(base(url, options), options), options).await?;
            return Ok(Self {
                reader: Connections::reading(reader, Duration::ZERO),
                writer: Connections::writing(writer, Duration::ZERO),
                work_committed: watch::Sender::default(),
                versions: Arc::new(VersionSource::LogIndex(LogIndex::of(&path))),
                invalidations: Arc::default(),
                guard: None,
            });
        }
        if url.starts_with("postgres:") || url.starts_with("postgresql:") {
            let connect = postgresql::pool(base(url, options), options);
            let pool = postgresql::connect(url, open(connect, options)).await?;
            if options.max_connections > 1 {
                postgresql::check_sessions(&pool).await?;
            }
            let probe = SnapshotProbe::start(postgresql::single(url)?);
            return Ok(Self {
                reader: Connections::reading(pool.clone(), options.statement_timeout),
                writer: Connections::writing(pool, options.statement_timeout),
                work_committed: watch::Sender::default(),
                versions: Arc::new(VersionSource::Probe(probe)),
                invalidations: Arc::default(),
                guard: None,
            });
        }
        Err(Error::UnsupportedUrl)
    }

    /// Drops `guard` when no clone of this handle exists. Used for locks on a database that is in use.
    #[must_use]
    pub fn with_guard(mut self, guard: impl Any + Send + Sync) -> Self {
        self.guard = Some(Guard(Arc::new(guard)));
        self
    }

    /// Returns the connections for read-only statements. With SQLite, writes through them fail.
    /// Do not use it in the work of a [transaction](Self::transaction).
    pub fn read(&self) -> &Connections {
        &self.reader
    }

    /// Returns the connections for single write statements outside a transaction. Do not use it in the work of a
    /// [transaction](Self::transaction): SQLite has only one writing connection, so the call would time out.
    pub fn write(&self) -> &Connections {
        &self.writer
    }

    /// Starts a transaction that may write; dropping it rolls it back.
    ///
    /// # Errors
    /// A database error, for example if no connection becomes free in time.
    pub async fn begin(&self) -> Result<DatabaseTransaction, DbErr> {
        let options = TransactionOptions {
            sqlite_transaction_mode: Some(SqliteTransactionMode::Immediate),
            ..TransactionOptions::default()
        };
        self.writer.begin(options).await
    }

    /// Starts a read-only transaction that sees the state at its first statement.
    ///
    /// # Errors
    /// A database error, for example if no connection becomes free in time.
    pub async fn snapshot(&self) -> Result<DatabaseTransaction, DbErr> {
        // SQLite always reads from one snapshot and has no isolation levels.
        let (level, mode) = match self.backend() {
            DatabaseBackend::Sqlite => (None, None),
            _ => (Some(IsolationLevel::RepeatableRead), Some(AccessMode::ReadOnly)),
        };
        let options = TransactionOptions {
            isolation_level: level,
            access_mode: mode,
            ..TransactionOptions::default()
        };
        self.reader.begin(options).await
    }

    /// Starts a transaction as [`Self::snapshot`] that finds rows by an index, also if many rows match. For batches of
    /// rows that are then changed: a scan of the table would read the rows of all former batches again.
    ///
    /// # Errors
    /// A database error, for example if no connection becomes free in time.
    pub async fn indexed_snapshot(&self) -> Result<DatabaseTransaction, DbErr> {
        let snapshot = self.snapshot().await?;
        // SQLite prefers indexes.
        if self.backend() == DatabaseBackend::Postgres {
            let settings = "SELECT set_config('enable_seqscan', 'off', true), \
                            set_config('enable_bitmapscan', 'off', true)";
            let statement = Statement::from_string(self.backend(), settings);
            snapshot.query_one_raw(statement).await?;
        }
        Ok(snapshot)
    }

    /// Returns a receiver for commits of this handle and its clones that enqueued jobs.
    #[must_use]
    pub fn commits(&self) -> CommitReceiver {
        CommitReceiver(self.work_committed.subscribe())
    }

    /// Checks that the schema is that of this program.
    ///
    /// # Errors
    /// [`Error::NewerSchema`], [`Error::OlderSchema`].
    pub async fn check_schema(&self) -> Result<(), Error> {
        let known = Migrator::get_migration_files();
        let known: BTreeSet<String> = known.iter().map(|file| file.name().to_owned()).collect();
        let applied = self.applied_migrations().await;
        if let Some(unknown) = applied.difference(&known).next() {
            return Err(Error::NewerSchema(unknown.clone()));
        }
        match applied == known {
            true => Ok(()),
            false => Err(Error::OlderSchema),
        }
    }

    /// Returns the names of the applied migrations. A query without a lock is enough, and takes a fraction of the time of
    /// a migration that changes nothing.
    async fn applied_migrations(&self) -> BTreeSet<String> {
        let statement = Statement::from_string(self.backend(), "SELECT version FROM seaql_migrations");
        // An empty database has no such table. The migration returns all other errors.
        let rows = self.reader.query_all_raw(statement).await.unwrap_or_default();
        rows.iter()
            .filter_map(|row| row.try_get_by_index(0).ok())
            .collect()
    }

    /// Reads the version of the database's state. It contains each commit of any process that was acknowledged before this
    /// call. With PostgreSQL, one short query returns the version to all waiting requests, and the rest of the current request
    /// may use cached data of this version until it writes.
    ///
    /// Returns none if the version is not known; then nothing is cached.
    pub async fn read_version(&self) -> Option<DataVersion> {
        let VersionSource::Probe(probe) = &*self.versions else {
            return self.version();
        };
        // Read before the snapshot, so that an invalidation during the query changes the version.
        let invalidations = self.invalidations.load(Ordering::SeqCst);
        let number = probe.read().await;
        let version = number.map(|number| DataVersion::new(invalidations, DatabaseState::Snapshot(number)));
        request::remember_version(version);
        version
    }

    /// Returns the version of the data that caches may return, without a query. With SQLite, this is the current version. With
    /// PostgreSQL, it is the one that the current request has read, unless the request has written since.
    pub fn version(&self) -> Option<DataVersion> {
        match &*self.versions {
            VersionSource::LogIndex(index) => {
                let invalidations = self.invalidations.load(Ordering::SeqCst);
                index.state().map(|state| DataVersion::new(invalidations, state))
            }
            VersionSource::Probe(_) => request::version(),
        }
    }

    /// Invalidates all data that this process cached by database version.
    pub fn invalidate(&self) {
        self.invalidations.fetch_add(1, Ordering::SeqCst);
    }

    /// Invalidates all data that the nodes cached by database version. Needed by code that changes a repository without a
    /// record in the database.
    ///
    /// # Errors
    /// A database error.
    pub async fn invalidate_on_all_nodes(&self) -> Result<(), DbErr> {
        self.invalidate();
        if self.backend() == DatabaseBackend::Postgres {
            // The end of a transaction with a number changes the version.
            let number = Statement::from_string(self.backend(), "SELECT pg_current_xact_id()::text");
            self.writer.execute_raw(number).await?;
        }
        Ok(())
    }

    /// Returns whether there is a table with this name.
    ///
    /// # Errors
    /// A database error.
    pub async fn has_table(&self, name: &str) -> Result<bool, DbErr> {
        let sql = match self.backend() {
            DatabaseBackend::Sqlite => "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = $1",
            _ => "SELECT 1 WHERE to_regclass($1) IS NOT NULL",
        };
        let statement = Statement::from_sql_and_values(self.backend(), sql, [name.into()]);
        Ok(self.reader.query_one_raw(statement).await?.is_some())
    }

    /// Returns whether the database has no tables.
    ///
    /// # Errors
    /// A database error.
    pub async fn is_empty(&self) -> Result<bool, DbErr> {
        let sql = match self.backend() {
            DatabaseBackend::Sqlite => "SELECT 1 FROM sqlite_master LIMIT 1",
            _ => {
                "SELECT 1 FROM pg_class WHERE relkind IN ('r', 'p') \
                 AND relnamespace = current_schema()::regnamespace LIMIT 1"
            }
        };
        let statement = Statement::from_string(self.backend(), sql);
        Ok(self.reader.query_one_raw(statement).await?.is_none())
    }

    /// Returns the kind of the database.
    pub fn backend(&self) -> DatabaseBackend {
        self.writer.get_database_backend()
    }

    /// Checks that the database responds to reads and writes.
    ///
    /// # Errors
    /// A database error.
    pub async fn ping(&self) -> Result<(), DbErr> {
        self.reader.pool.ping().await?;
        self.writer.pool.ping().await
    }

    /// Closes all connections after those in use are returned.
    ///
    /// # Errors
    /// A database error.
    pub async fn close(self) -> Result<(), DbErr> {
        if let VersionSource::Probe(probe) = &*self.versions {
            probe.close().await;
        }
        self.reader.pool.close().await?;
        self.writer.pool.close().await
    }
}

/// Returns the names of all migrations of this program in their order.
pub fn known_migrations() -> Vec<String> {
    let files = Migrator::get_migration_files();
    files.iter().map(|file| file.name().to_owned()).collect()
}

/// Returns the options common to both databases.
fn base(url: &str, options: &DatabaseOptions) -> ConnectOptions {
    let mut connect = ConnectOptions::new(url);
    connect
        .acquire_timeout(options.acquire_timeout)
        // A test of a connection before each use would take as long as a short statement.
        .test_before_acquire(false)
        // Would write values to logs and spans; `open` logs slow statements instead.
        .sqlx_logging(false)
        .record_stmt_in_spans(false);
    connect
}

async fn open(connect: ConnectOptions, options: &DatabaseOptions) -> Result<DatabaseConnection, DbErr> {
    let mut connection = sea_orm::Database::connect(connect).await?;
    let observer = options.observer.clone();
    connection.set_metric_callback(move |info| {
        request::record(info.elapsed);
        pool_usage::record_statement(info.elapsed, info.failed);
        if info.elapsed > SLOW_STATEMENT {
            tracing::warn!(sql = info.statement.sql, elapsed = ?info.elapsed, "slow statement");
        }
        if let Some(observer) = &observer {
            observer(&info.statement.sql, info.elapsed);
        }
    });
    Ok(connection)
}
