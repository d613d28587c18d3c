//! A server for one test with its own data directory, database and port.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::operations::first_start::GivenCredentials;
use harness::{Run, TestFuture};
use holdfast::config::ConfigOptions;
use holdfast::server;
use sea_orm::{ConnectionTrait, DatabaseTransaction, DbBackend, Statement};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::Client;
use super::databases::{self, PostgresqlDatabase};

/// Setting for the number of days before deleted projects and groups are removed.
pub const DELETION_DELAY: &str = "deletion_adjourned_period";
/// Root token of every test server.
pub const ROOT_TOKEN: &str = "root-token-of-the-tests";
/// Root password of every test server.
pub const ROOT_PASSWORD: &str = "root password of the tests";
/// Time limit of the wait for a transaction that waits for a lock.
const LOCK_TIME_LIMIT: Duration = Duration::from_secs(30);

/// Returns the options of a server for tests that keep a transaction open while other work waits for it.
pub fn with_more_connections() -> ConfigOptions {
    ConfigOptions { database_connections: Some(5), ..ConfigOptions::default() }
}

/// Database of a server.
#[derive(Debug, Clone)]
pub enum DatabaseKind {
    /// SQLite in the data directory.
    Sqlite,
    /// PostgreSQL at this URL; each server creates its own database.
    Postgresql(String),
}

impl DatabaseKind {
    /// Returns PostgreSQL. Requires [`harness::postgresql::missing`] of the test.
    pub fn postgresql() -> Self {
        Self::Postgresql(harness::postgresql::url().to_owned())
    }

    /// Returns the database of a variant of [`harness::EVERY_DATABASE`].
    pub fn of_variant(variant: &str) -> Self {
        match variant {
            harness::ON_SQLITE => Self::Sqlite,
            harness::ON_POSTGRESQL => Self::postgresql(),
            other => panic!("unknown variant {other}"),
        }
    }
}

/// A test function for a server on each database.
#[derive(Debug)]
pub struct ServerTest {
    /// Returns the options of the server.
    pub options: fn() -> ConfigOptions,
    /// The function.
    pub test: fn(TestServer) -> TestFuture,
}

impl Run for ServerTest {
    fn run(&self, variant: &'static str) {
        let Self { options, test } = *self;
        let run = async move {
            let server = TestServer::start_with(DatabaseKind::of_variant(variant), options()).await;
            test(server.clone()).await;
            server.stop().await;
        };
        harness::run_on_threads(1, Box::pin(run));
    }
}

/// A running server. Clones refer to the same server.
#[derive(Clone)]
pub struct TestServer {
    /// `http://127.0.0.1:port`.
    pub base: String,
    /// Backend of the services, for tests that bypass the API.
    pub backend: domain::kernel::Backend,
    data: Arc<tempfile::TempDir>,
    statements: Arc<Statements>,
    database: Option<Arc<PostgresqlDatabase>>,
    running: Arc<Mutex<Option<Running>>>,
}

/// The server task, until it is stopped.
struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Statements {
    count: AtomicUsize,
    /// Statements since the first call of `statements`. Before that none are recorded, to save memory in long tests.
    texts: Mutex<Option<(usize, Vec<String>)>>,
}

impl TestServer {
    /// Starts a server with these options. The address, data directory and database belong to the test.
    pub async fn start_with(kind: DatabaseKind, options: ConfigOptions) -> Self {
        let data = databases::temporary_directory();
        let database = match &kind {
            DatabaseKind::Sqlite => {
                databases::copy_sqlite_instance(data.path());
                None
            }
            DatabaseKind::Postgresql(url) => {
                Some(Arc::new(databases::copy_postgresql_instance(data.path(), url).await))
            }
        };
        let options = ConfigOptions {
            listen: Some("127.0.0.1:0".parse().expect("an address")),
            data_dir: Some(data.path().to_owned()),
            database_url: database.as_ref().map(|database| database.url.clone()),
            // A new connection takes time: SQLite parses the whole schema, and PostgreSQL starts a process.
            database_connections: options.database_connections.or(Some(2)),
            // Tests count statements, and background jobs would add theirs.
            no_worker: options.no_worker.or(Some(true)),
            // Webhook receivers listen on the loopback address.
            allow_local_webhooks: options.allow_local_webhooks.or(Some(true)),
            ..options
        };
        let statements = Arc::new(Statements::default());
        let seen = Arc::clone(&statements);
        let observer: storage::database::StatementObserver = Arc::new(move |sql, _| {
            seen.count.fetch_add(1, Ordering::Relaxed);
            if let Some((_, texts)) = &mut *seen.texts.lock().expect("texts") {
                texts.push(sql.to_owned());
            }
        });
        let settings = options.settings().expect("settings");
        let bound = server::bind(settings, GivenCredentials::default(), Some(observer)).await.expect("a server");
        let (base, backend) = (format!("http://{}", bound.address), bound.backend.clone());
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            let stopped = async {
                let _ = stopped.await;
            };
            bound.serve(stopped).await.expect("serving");
        });
        Self {
            base,
            backend,
            data: Arc::new(data),
            statements,
            database,
            running: Arc::new(Mutex::new(Some(Running { stop, task }))),
        }
    }

    /// Stops the server as SIGTERM does and waits for it. Only the first call on any clone has an effect.
    pub async fn stop(self) {
        let running = self.running.lock().expect("the task").take();
        let Some(Running { stop, task }) = running else {
            return;
        };
        let _ = stop.send(());
        task.await.expect("a clean end");
        drop(self.backend);
        if let Some(database) = self.database {
            database.remove().await;
        }
    }

    /// Returns the data directory.
    pub fn data(&self) -> &Path {
        self.data.path()
    }

    /// Clears the response cache, returns the number of statements so far and records the texts of later statements.
    pub fn statements(&self) -> usize {
        self.backend.database.invalidate();
        let count = self.statements.count.load(Ordering::Relaxed);
        let mut texts = self.statements.texts.lock().expect("texts");
        texts.get_or_insert_with(|| (count, Vec::new()));
        count
    }

    /// Returns the texts of the statements from the given number on.
    pub fn statement_texts(&self, from: usize) -> Vec<String> {
        let texts = self.statements.texts.lock().expect("texts");
        let (first, texts) = texts.as_ref().expect("a count of statements before");
        texts[from - first..].to_vec()
    }

    /// Returns whether transactions lock single rows. SQLite has only one writer.
    pub fn locks_rows(&self) -> bool {
        self.backend.database.backend() == DbBackend::Postgres
    }

    /// Commits a transaction as soon as another one waits for its locks. Requires [`Self::locks_rows`], and a
    /// connection in addition to those of the transactions.
    pub async fn commit_when_awaited(&self, transaction: DatabaseTransaction) {
        let waiting = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        let read = self.backend.database.read();
        let is_awaited = async || {
            let statement = Statement::from_string(DbBackend::Postgres, waiting);
            read.query_one_raw(statement).await.expect("a query").is_some()
        };
        let awaited = async {
            while !is_awaited().await {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(LOCK_TIME_LIMIT, awaited).await.expect("a transaction that waits");
        transaction.commit().await.expect("a commit");
    }

    /// Returns a client without credentials.
    pub fn anonymous(&self) -> Client {
        Client::new(&self.base, None)
    }

    /// Returns a client of the administrator.
    pub fn root(&self) -> Client {
        self.with_token(ROOT_TOKEN)
    }

    /// Returns a client with a token.
    pub fn with_token(&self, token: &str) -> Client {
        Client::new(&self.base, Some(token))
    }
}
