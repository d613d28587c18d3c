//! The database: SQLite in a file, or PostgreSQL.
//!
//! SQLite has one writer at a time. So that nobody meets `SQLITE_BUSY`, writes go through a pool of one
//! connection and begin as writers; reads go through a pool of their own, whose connections refuse to write.
//! With PostgreSQL both are the same pool.
//!
//! An acknowledged commit is never lost: SQLite runs in WAL mode with `synchronous=FULL`, which syncs the log
//! at every commit; PostgreSQL does so unless its operator told it otherwise.

use std::{cell::Cell, fmt, sync::Arc, time::Duration};

use migration::{Migrator, MigratorTrait};
use sea_orm::{
    AccessMode, ConnectOptions, ConnectionTrait, DatabaseBackend, DatabaseConnection, DatabaseTransaction,
    DbErr, IsolationLevel, SqliteTransactionMode, Statement, TransactionOptions, TransactionTrait,
};
use tokio::sync::watch;

mod remembered;
mod sqlite;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod version;
mod violation;

pub use remembered::Remembered;
pub use version::Version;
pub use violation::{Violation, is_deadlock};

/// A statement slower than this is logged, without its values.
const SLOW_STATEMENT: Duration = Duration::from_secs(1);

/// The advisory lock that a migrating node holds in PostgreSQL; any number will do, as long as it stays.
const MIGRATION_LOCK: i64 = 0x484f_4c44_4641_5354;

/// What is told of every statement that ran: its text without values, and how long it took.
pub type Observer = Arc<dyn Fn(&str, Duration) + Send + Sync>;

/// How to connect.
#[derive(Clone)]
pub struct Options {
    /// The most connections at a time: all of them with PostgreSQL, those that read with SQLite.
    pub max_connections: u32,
    /// How long to wait for a free connection, or for another process's write to a SQLite file.
    pub acquire_timeout: Duration,
    /// Told of every statement; for metrics, and for tests that count statements.
    pub observer: Option<Observer>,
    /// If true, the file of a SQLite database is not created.
    pub must_exist: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_connections: 10,
            acquire_timeout: Duration::from_secs(30),
            observer: None,
            must_exist: false,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("max_connections", &self.max_connections)
            .field("acquire_timeout", &self.acquire_timeout)
            .finish_non_exhaustive()
    }
}

/// Why a database could not be opened or prepared.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is of no kind that is supported; it is not repeated, as it may hold a password.
    #[error("the database URL must begin with sqlite:// and name a file, or with postgres://")]
    UnsupportedUrl,
    /// There is no such file of a SQLite database.
    #[error("{} does not exist; set --database-url or HOLDFAST_DATABASE_URL to the database of the instance", .0.display())]
    Missing(std::path::PathBuf),
    /// The file of a SQLite database cannot be made.
    #[error("cannot create the database file: {0}")]
    File(#[from] std::io::Error),
    /// The database refused.
    #[error(transparent)]
    Database(#[from] DbErr),
}

/// A handle on the database; cheap to clone.
#[derive(Debug, Clone)]
pub struct Database {
    reader: DatabaseConnection,
    writer: DatabaseConnection,
    work_committed: watch::Sender<()>,
    /// With SQLite only.
    log_index: Option<Arc<version::LogIndex>>,
}

/// Commits that leave work. Each listener is told of every one, and of one that came while it was busy.
#[derive(Debug)]
pub struct Commits(watch::Receiver<()>);

impl Commits {
    /// Waits for a commit since the last time.
    pub async fn with_work(&mut self) {
        // The sender lives as long as the database; without it there are no more commits.
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

tokio::task_local! {
    /// Whether the transaction that this task is in has left work for others.
    static LEFT_WORK: Cell<bool>;
}

/// Tells, from within [`Database::transaction`], that its commit leaves work for those who wait for it by
/// [`Database::commits`]. Elsewhere it does nothing: they find the work when they look again.
pub fn wake_on_commit() {
    // Outside a transaction of ours there is nobody to tell, which is no fault.
    let _ = LEFT_WORK.try_with(|left| left.set(true));
}

impl Database {
    /// Connects to `sqlite://path`, creating the file if need be, or to `postgres://...`.
    ///
    /// # Errors
    /// [`Error::UnsupportedUrl`], [`Error::Missing`], [`Error::File`], or whatever the database reports.
    pub async fn connect(url: &str, options: &Options) -> Result<Self, Error> {
        if url.starts_with("sqlite:") {
            let path = sqlite::prepare_file(url, options.must_exist)?;
            tracing::debug!(path = %path.display(), "opening SQLite");
            let reader = open(sqlite::reader(base(url, options), options), options).await?;
            let writer = open(sqlite::writer(base(url, options), options), options).await?;
            return Ok(Self {
                reader,
                writer,
                work_committed: watch::Sender::default(),
                log_index: Some(Arc::new(version::LogIndex::of(&path))),
            });
        }
        if url.starts_with("postgres:") || url.starts_with("postgresql:") {
            let mut connect = base(url, options);
            connect
                .max_connections(options.max_connections)
                .set_application_name("holdfast")
                // Compiling a statement takes PostgreSQL longer than any of ours runs: a second and more for a list that is
                // there after some milliseconds, which it estimates as costly because of what is seldom looked at.
                .map_sqlx_postgres_opts(|postgres| postgres.options([("jit", "off")]));
            let pool = open(connect, options).await?;
            return Ok(Self {
                reader: pool.clone(),
                writer: pool,
                work_committed: watch::Sender::default(),
                log_index: None,
            });
        }
        Err(Error::UnsupportedUrl)
    }

    /// The connections for statements that only read. With SQLite, writing through them fails.
    pub fn read(&self) -> &DatabaseConnection {
        &self.reader
    }

    /// The connections for single statements that write, outside a transaction. Never to be used by somebody
    /// who holds a transaction: SQLite has one writing connection, and it would be waited for in vain.
    pub fn write(&self) -> &DatabaseConnection {
        &self.writer
    }

    /// Begins a transaction that may write; dropped without commit, it is undone.
    ///
    /// # Errors
    /// Whatever the database reports, for instance that no connection became free in time.
    pub async fn begin(&self) -> Result<DatabaseTransaction, DbErr> {
        self.writer
            .begin_with_options(TransactionOptions {
                sqlite_transaction_mode: Some(SqliteTransactionMode::Immediate),
                ..TransactionOptions::default()
            })
            .await
    }

    /// Begins a transaction that reads: all of it sees the database as it is at its first statement.
    ///
    /// # Errors
    /// Whatever the database reports, for instance that no connection became free in time.
    pub async fn snapshot(&self) -> Result<DatabaseTransaction, DbErr> {
        // SQLite keeps to one state from the first read on, and knows no levels.
        let (level, mode) = match self.backend() {
            DatabaseBackend::Sqlite => (None, None),
            _ => (Some(IsolationLevel::RepeatableRead), Some(AccessMode::ReadOnly)),
        };
        self.reader.begin_with_config(level, mode).await
    }

    /// Runs `work` in one transaction: committed when it succeeds, undone when it fails, panics or is dropped.
    /// Slow things that are not the database's (Git, the network) belong outside: they would hold up every
    /// other writer.
    ///
    /// # Errors
    /// What `work` fails with, or what the database reports at the beginning or the commit.
    pub async fn transaction<T, E: From<DbErr>>(
        &self,
        work: impl AsyncFnOnce(&DatabaseTransaction) -> Result<T, E>,
    ) -> Result<T, E> {
        let transaction = self.begin().await?;
        let (outcome, left_work) = LEFT_WORK
            .scope(Cell::new(false), async {
                let outcome = work(&transaction).await;
                (outcome, LEFT_WORK.with(Cell::get))
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

    /// Those commits of this handle and its clones, from now on, that leave work for others.
    #[must_use]
    pub fn commits(&self) -> Commits {
        Commits(self.work_committed.subscribe())
    }

    /// Brings the schema up to this program's, in one transaction that keeps other nodes and processes that
    /// start at the same time waiting.
    ///
    /// # Errors
    /// Whatever the database reports; also when the schema is newer than this program.
    pub async fn migrate(&self) -> Result<(), DbErr> {
        self.transaction(async |transaction| {
            if self.backend() == DatabaseBackend::Postgres {
                let lock = Statement::from_sql_and_values(
                    DatabaseBackend::Postgres,
                    "SELECT pg_advisory_xact_lock($1)",
                    [MIGRATION_LOCK.into()],
                );
                transaction.execute_raw(lock).await?;
            }
            Migrator::up(transaction, None).await
        })
        .await
    }

    /// The state that the database is in, when that can be told without asking it. A commit that was acknowledged
    /// has changed it, whoever made it.
    pub fn version(&self) -> Option<Version> {
        self.log_index.as_ref()?.version()
    }

    /// Makes all that is remembered of this database count for nothing, for those who change a repository by other
    /// ways than the services that note it in the database.
    pub fn forget(&self) {
        if let Some(index) = &self.log_index {
            index.forget();
        }
    }

    /// Which of the two databases it is.
    pub fn backend(&self) -> DatabaseBackend {
        self.writer.get_database_backend()
    }

    /// Checks that the database answers, both for reading and for writing.
    ///
    /// # Errors
    /// Whatever the database reports.
    pub async fn ping(&self) -> Result<(), DbErr> {
        self.reader.ping().await?;
        self.writer.ping().await
    }

    /// Closes all connections, once those in use are given back.
    ///
    /// # Errors
    /// Whatever the database reports.
    pub async fn close(self) -> Result<(), DbErr> {
        self.reader.close().await?;
        self.writer.close().await
    }
}

/// What both databases have in common.
fn base(url: &str, options: &Options) -> ConnectOptions {
    let mut connect = ConnectOptions::new(url);
    connect
        .acquire_timeout(options.acquire_timeout)
        // Values would end up in logs and spans; what is slow is logged by `open`.
        .sqlx_logging(false)
        .record_stmt_in_spans(false);
    connect
}

async fn open(connect: ConnectOptions, options: &Options) -> Result<DatabaseConnection, DbErr> {
    let mut connection = sea_orm::Database::connect(connect).await?;
    let observer = options.observer.clone();
    connection.set_metric_callback(move |info| {
        if info.elapsed > SLOW_STATEMENT {
            tracing::warn!(sql = info.statement.sql, elapsed = ?info.elapsed, "slow statement");
        }
        if let Some(observer) = &observer {
            observer(&info.statement.sql, info.elapsed);
        }
    });
    Ok(connection)
}
