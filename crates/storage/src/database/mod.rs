//! The database: SQLite in a file, or PostgreSQL.
//!
//! SQLite allows one writer at a time. To avoid `SQLITE_BUSY`, all writes use a pool with a single connection,
//! and their transactions start as writers. Reads use a separate pool of read-only connections. With PostgreSQL
//! both are the same pool.
//!
//! Acknowledged commits are durable. SQLite runs in WAL mode with `synchronous=FULL`, which syncs the log at
//! every commit; PostgreSQL syncs by default.

use std::{cell::Cell, collections::BTreeSet, fmt, sync::Arc, time::Duration};

use migration::{Migrator, MigratorTrait};
use sea_orm::{
    AccessMode, ConnectOptions, ConnectionTrait, DatabaseBackend, DatabaseConnection, DatabaseTransaction,
    DbErr, IsolationLevel, SqliteTransactionMode, Statement, TransactionOptions,
};
use tokio::sync::watch;

mod connections;
mod postgresql;
mod request;
mod sqlite;
mod statement_limit;
#[cfg(test)]
pub(crate) mod testing;
mod versioned_cache;
// A function that is not registered as a test is an error.
#[cfg(test)]
#[warn(dead_code)]
mod request_tests;
#[cfg(test)]
#[warn(dead_code)]
mod tests;
mod version;
mod violation;

pub use connections::Connections;
pub use request::{is_time_exceeded, measure, refusals, use_share};
pub use statement_limit::allow_statements_of;
pub use version::DataVersion;
pub use versioned_cache::VersionedCache;
pub use violation::{Violation, is_deadlock, is_disk_full};

/// Duration from which a statement is logged, without its values.
const SLOW_STATEMENT: Duration = Duration::from_secs(1);

/// Advisory lock of a migration in PostgreSQL; the number is arbitrary but must never change.
const MIGRATION_LOCK: i64 = 0x484f_4c44_4641_5354;

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
    /// Time after which PostgreSQL cancels a statement, except in migrations and [work with a longer
    /// limit](allow_statements_of); zero for never.
    pub statement_timeout: Duration,
}

impl Default for DatabaseOptions {
    fn default() -> Self {
        Self {
            max_connections: 10,
            acquire_timeout: Duration::from_secs(30),
            observer: None,
            must_exist: false,
            statement_timeout: Duration::ZERO,
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
    /// A newer version of Holdfast has changed the schema; contains the first unknown migration.
    #[error(
        "the database was migrated by a newer version of Holdfast ({0} is unknown here); start that version, or restore a \
         backup from before the upgrade"
    )]
    NewerSchema(String),
    /// The database returned an error.
    #[error(transparent)]
    Database(#[from] DbErr),
}

/// A handle on the database; cheap to clone.
#[derive(Debug, Clone)]
pub struct Database {
    reader: Connections,
    writer: Connections,
    work_committed: watch::Sender<()>,
    /// Only with SQLite.
    log_index: Option<Arc<version::LogIndex>>,
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

tokio::task_local! {
    /// Whether the current transaction of this task enqueued jobs.
    static ENQUEUED_JOBS: Cell<bool>;
}

/// Marks the current [`Database::transaction`], so that its commit wakes the receivers of
/// [`Database::commits`]. Has no effect outside a transaction: the receivers also poll.
pub fn wake_on_commit() {
    // Outside a transaction the task-local value is not set, which is not an error.
    let _ = ENQUEUED_JOBS.try_with(|enqueued| enqueued.set(true));
}

impl Database {
    /// Connects to `sqlite://path`, creating the file if needed, or to `postgres://...`.
    ///
    /// # Errors
    /// [`Error::UnsupportedUrl`], [`Error::Missing`], [`Error::File`], [`Error::Unreachable`], or a database error.
    pub async fn connect(url: &str, options: &DatabaseOptions) -> Result<Self, Error> {
        if url.starts_with("sqlite:") {
            let path = sqlite::prepare_file(url, options.must_exist)?;
            tracing::debug!(path = %path.display(), "prepared the SQLite database file");
            let reader = open(sqlite::reader(base(url, options), options), options).await?;
            let writer = open(sqlite::writer(base(url, options), options), options).await?;
            return Ok(Self {
                reader: Connections::new(reader, Duration::ZERO),
                writer: Connections::new(writer, Duration::ZERO),
                work_committed: watch::Sender::default(),
                log_index: Some(Arc::new(version::LogIndex::of(&path))),
            });
        }
        if url.starts_with("postgres:") || url.starts_with("postgresql:") {
            postgresql::check_connection(url).await?;
            let statement_timeout = options.statement_timeout.as_millis().to_string();
            let mut connect = base(url, options);
            connect
                .max_connections(options.max_connections)
                .set_application_name("holdfast")
                // JIT compilation takes longer than any statement here runs. PostgreSQL estimates some lists
                // as expensive because of rarely used branches, and compiles them for over a second to run
                // them for milliseconds.
                .map_sqlx_postgres_opts(move |postgres| {
                    postgres.options([("jit", "off"), ("statement_timeout", statement_timeout.as_str())])
                });
            let pool = open(connect, options).await?;
            return Ok(Self {
                reader: Connections::new(pool.clone(), options.statement_timeout),
                writer: Connections::new(pool, options.statement_timeout),
                work_committed: watch::Sender::default(),
                log_index: None,
            });
        }
        Err(Error::UnsupportedUrl)
    }

    /// Returns the connections for read-only statements. With SQLite, writes through them fail.
    pub fn read(&self) -> &Connections {
        &self.reader
    }

    /// Returns the connections for single write statements outside a transaction. Do not use it while a
    /// transaction is open: SQLite has only one writing connection, so the call would time out.
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

    /// Runs `work` in one transaction. It is committed if `work` succeeds, and rolled back if it fails,
    /// panics or is dropped. Slow operations such as Git or network access must run outside, because they
    /// block all other writers.
    ///
    /// # Errors
    /// The error of `work`, or a database error when the transaction starts or commits.
    pub async fn transaction<T, E: From<DbErr>>(
        &self,
        work: impl AsyncFnOnce(&DatabaseTransaction) -> Result<T, E>,
    ) -> Result<T, E> {
        let _permit = request::admit().await?;
        let transaction = self.begin().await?;
        let (outcome, left_work) = ENQUEUED_JOBS
            .scope(Cell::new(false), async {
                let outcome = work(&transaction).await;
                (outcome, ENQUEUED_JOBS.with(Cell::get))
            })
            .await;
        match outcome {
            Ok(value) => {
                transaction.commit().await?;
                if left_work {
                    self.work_committed.send_replace(());
                }
                Ok(value)
            }
            Err(error) => {
                transaction.rollback().await?;
                Err(error)
            }
        }
    }

    /// Returns a receiver for commits of this handle and its clones that enqueued jobs.
    #[must_use]
    pub fn commits(&self) -> CommitReceiver {
        CommitReceiver(self.work_committed.subscribe())
    }

    /// Migrates the schema in one transaction. Other nodes and processes that start at the same time wait for
    /// it.
    ///
    /// # Errors
    /// A database error; also if the schema is newer than this program.
    pub async fn migrate(&self) -> Result<(), Error> {
        let known = Migrator::get_migration_files();
        let known: BTreeSet<String> = known.iter().map(|file| file.name().to_owned()).collect();
        let applied = self.applied_migrations().await;
        if let Some(unknown) = applied.difference(&known).next() {
            return Err(Error::NewerSchema(unknown.clone()));
        }
        if applied == known {
            return Ok(());
        }
        self.transaction(async |transaction| {
            if self.backend() == DatabaseBackend::Postgres {
                transaction
                    .execute_unprepared("SET LOCAL statement_timeout = 0")
                    .await?;
                let lock = Statement::from_sql_and_values(
                    DatabaseBackend::Postgres,
                    "SELECT pg_advisory_xact_lock($1)",
                    [MIGRATION_LOCK.into()],
                );
                transaction.execute_raw(lock).await?;
            }
            Ok(Migrator::up(transaction, None).await?)
        })
        .await
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

    /// Returns the version of the database's state, if it is known without a query. Every acknowledged commit
    /// of any process changes it.
    pub fn version(&self) -> Option<DataVersion> {
        self.log_index.as_ref()?.version()
    }

    /// Invalidates all data cached by database version. Needed by code that changes a repository without a
    /// record in the database.
    pub fn invalidate(&self) {
        if let Some(index) = &self.log_index {
            index.invalidate();
        }
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
        self.reader.pool.close().await?;
        self.writer.pool.close().await
    }
}

/// Returns the options common to both databases.
fn base(url: &str, options: &DatabaseOptions) -> ConnectOptions {
    let mut connect = ConnectOptions::new(url);
    connect
        .acquire_timeout(options.acquire_timeout)
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
        if info.elapsed > SLOW_STATEMENT {
            tracing::warn!(sql = info.statement.sql, elapsed = ?info.elapsed, "slow statement");
        }
        if let Some(observer) = &observer {
            observer(&info.statement.sql, info.elapsed);
        }
    });
    Ok(connection)
}
