//! A server of one test: its own data directory, database and port.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use domain::operations::first_start::Chosen;
use domain::secrets::Secret;
use holdfast::config::Options;
use holdfast::server;
use storage::entities::settings;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::Client;
use super::databases::{self, PostgresqlDatabase};

/// The setting that says how many days removed projects and groups are kept.
pub const DELETION_DELAY: &str = "deletion_adjourned_period";
/// The root token of every test server.
pub const ROOT_TOKEN: &str = "root-token-of-the-tests";
/// The root password of every test server.
pub const ROOT_PASSWORD: &str = "root password of the tests";

/// Which database a server runs on.
#[derive(Debug, Clone)]
pub enum Kind {
    /// SQLite in the data directory.
    Sqlite,
    /// PostgreSQL at this address; each server makes a database of its own.
    Postgresql(String),
}

impl Kind {
    /// PostgreSQL, when the environment names one.
    pub fn postgresql() -> Option<Self> {
        std::env::var("HOLDFAST_TEST_DATABASE_URL").ok().filter(|url| !url.is_empty()).map(Self::Postgresql)
    }
}

/// A running server. Clones are handles on the same one.
#[derive(Clone)]
pub struct TestServer {
    /// `http://127.0.0.1:port`.
    pub base: String,
    /// What the services work with, for looking behind the API.
    pub backend: domain::kernel::Backend,
    data: Arc<tempfile::TempDir>,
    statements: Arc<Statements>,
    database: Option<Arc<PostgresqlDatabase>>,
    running: Arc<Mutex<Option<Running>>>,
}

/// The task that serves, until it is stopped.
struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Statements {
    count: AtomicUsize,
    /// Those that ran since somebody asked for the count. Until then none are kept, which long tests have no memory for.
    texts: Mutex<Option<(usize, Vec<String>)>>,
}

impl TestServer {
    /// Starts a server with these options; the address, data and database are the test's own.
    pub async fn start_with(kind: Kind, options: Options) -> Self {
        let data = tempfile::tempdir().expect("a data directory");
        let database = match &kind {
            Kind::Sqlite => {
                databases::migrated_file(&data.path().join("holdfast.db")).await;
                None
            }
            Kind::Postgresql(url) => Some(Arc::new(PostgresqlDatabase::migrated(url).await)),
        };
        let options = Options {
            listen: Some("127.0.0.1:0".parse().expect("an address")),
            data_dir: Some(data.path().to_owned()),
            database_url: database.as_ref().map(|database| database.url.clone()),
            database_connections: options.database_connections.or(Some(4)),
            // Statements are counted in tests, and jobs would add theirs.
            no_worker: options.no_worker.or(Some(true)),
            // Receivers of webhooks are on loopback.
            allow_local_webhooks: options.allow_local_webhooks.or(Some(true)),
            ..options
        };
        let statements = Arc::new(Statements::default());
        let seen = Arc::clone(&statements);
        let observer: storage::database::Observer = Arc::new(move |sql, _| {
            seen.count.fetch_add(1, Ordering::Relaxed);
            if let Some((_, texts)) = &mut *seen.texts.lock().expect("texts") {
                texts.push(sql.to_owned());
            }
        });
        let chosen = Chosen {
            token: Some(Secret::new(ROOT_TOKEN.to_owned())),
            password: Some(Secret::new(ROOT_PASSWORD.to_owned())),
        };
        let bound =
            server::bind(options.settings().expect("settings"), chosen, Some(observer)).await.expect("a server");
        let (base, backend) = (format!("http://{}", bound.address), bound.backend.clone());
        // What is removed goes at once, unless a test says otherwise.
        settings::put(backend.database.write(), DELETION_DELAY, "0").await.expect("a setting");
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

    /// Stops the server as SIGTERM does, and waits for it. Only the first call on any of its handles does so.
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

    /// The data directory.
    pub fn data(&self) -> &Path {
        self.data.path()
    }

    /// How many statements the database has run so far; from here on nothing is remembered of it.
    pub fn statements(&self) -> usize {
        self.backend.database.forget();
        let count = self.statements.count.load(Ordering::Relaxed);
        let mut texts = self.statements.texts.lock().expect("texts");
        texts.get_or_insert_with(|| (count, Vec::new()));
        count
    }

    /// The texts of the statements from the given one on.
    pub fn statement_texts(&self, from: usize) -> Vec<String> {
        let texts = self.statements.texts.lock().expect("texts");
        let (first, texts) = texts.as_ref().expect("a count of statements before");
        texts[from - first..].to_vec()
    }

    /// A caller without credentials.
    pub fn anonymous(&self) -> Client {
        Client::new(&self.base, None)
    }

    /// The administrator.
    pub fn root(&self) -> Client {
        self.with_token(ROOT_TOKEN)
    }

    /// A caller with a token.
    pub fn with_token(&self, token: &str) -> Client {
        Client::new(&self.base, Some(token))
    }
}
