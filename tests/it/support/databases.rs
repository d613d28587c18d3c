//! Instances and databases for the tests. The templates are created once per run and copied.

use std::collections::HashMap;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, OnceLock};

use harness::directory;
use sea_orm::{ConnectionTrait, DatabaseConnection};
use storage::database::{Database, DatabaseOptions};
use tokio::sync::{mpsc, oneshot};

use super::server::{DELETION_DELAY, ROOT_PASSWORD, ROOT_TOKEN};
use super::template::{self, Preset};

/// Prefix of the names of all test databases. The process ID of the supervisor of the run follows.
const PREFIX: &str = "holdfast_test_";
/// Number of databases that are created before a test needs them.
const SPARES: usize = 2;
/// File with the name of the template database.
const DATABASE: &str = "template-database";

/// All test servers begin like this. Deletion is immediate unless a test changes the setting.
const PRESET: Preset = Preset { token: ROOT_TOKEN, password: ROOT_PASSWORD, settings: &[(DELETION_DELAY, "0")] };

/// Creates a temporary directory. It is in memory if there is room, and is removed after a killed test too.
pub fn temporary_directory() -> tempfile::TempDir {
    tempfile::tempdir_in(directory::shared()).expect("a directory")
}

/// Copies an instance on SQLite into a directory.
pub fn copy_sqlite_instance(directory: &Path) {
    static TEMPLATE: LazyLock<PathBuf> = LazyLock::new(|| {
        directory::create_template("sqlite", async |path: &Path| template::create(path, None, &PRESET).await)
    });
    template::copy(&TEMPLATE, directory).expect("a copy");
}

/// Copies an instance on PostgreSQL: its files into a directory, and its database.
pub async fn copy_postgresql_instance(directory: &Path, admin: &str) -> PostgresqlDatabase {
    static TEMPLATE: OnceLock<(PathBuf, String)> = OnceLock::new();
    let (files, name) = TEMPLATE.get_or_init(|| {
        create_template_database("postgresql", admin, async |path, url| {
            remove_abandoned(admin).await;
            template::create(path, Some(url), &PRESET).await;
        })
    });
    template::copy(files, directory).expect("a copy");
    PostgresqlDatabase::like(admin, name).await
}

/// Creates a data directory with an SQLite database that has all migrations and no rows, as after the first step of a
/// first start.
pub fn copy_migrated_sqlite_database(directory: &Path) {
    static TEMPLATE: LazyLock<PathBuf> = LazyLock::new(|| {
        directory::create_template("migrated-sqlite", async |path: &Path| {
            let url = format!("sqlite://{}", path.join("holdfast.db").display());
            migrate(&url).await;
        })
    });
    DirBuilder::new().mode(0o700).create(directory).expect("a data directory");
    template::copy(&TEMPLATE, directory).expect("a copy");
}

/// Creates the schema in an empty database.
async fn migrate(url: &str) {
    let database = Database::connect(url, &DatabaseOptions::default()).await.expect("the database");
    database.migrate().await.expect("migrations");
    database.close().await.expect("closing");
}

/// Creates a PostgreSQL database that has all migrations and no rows, as after the first step of a first start.
pub async fn migrated_postgresql_database(admin: &str) -> PostgresqlDatabase {
    static TEMPLATE: OnceLock<(PathBuf, String)> = OnceLock::new();
    let (_, name) =
        TEMPLATE.get_or_init(|| create_template_database("migrated", admin, async |_, url| migrate(&url).await));
    PostgresqlDatabase::like(admin, name).await
}

/// Creates a template of a directory and a database once per run. `fill` receives the path of the empty directory and
/// the URL of the empty database. Returns the path, and the name of the database.
fn create_template_database(
    template: &str,
    admin: &str,
    fill: impl AsyncFnOnce(&Path, String) + Send,
) -> (PathBuf, String) {
    let path = directory::create_template(template, async |path: &Path| {
        let name = new_name();
        create_database(&connect(admin).await, &name, "template1").await;
        fill(path, url_of(admin, &name)).await;
        std::fs::write(path.with_extension(DATABASE), name).expect("a name");
    });
    let name = std::fs::read_to_string(path.with_extension(DATABASE));
    (path, name.expect("a name"))
}

/// A PostgreSQL database for one test.
pub struct PostgresqlDatabase {
    /// URL of the database.
    pub url: String,
    admin: String,
    name: String,
}

impl PostgresqlDatabase {
    /// Creates an empty database on the server of this URL.
    pub async fn create(admin: &str) -> Self {
        Self::like(admin, "template1").await
    }

    /// Creates a copy, which requires that nothing is connected to the database.
    pub async fn copy(&self) -> Self {
        Self::like(&self.admin, &self.name).await
    }

    async fn like(admin: &str, template: &str) -> Self {
        let (reply, created) = oneshot::channel();
        let order = Order::Create { template: template.to_owned(), reply };
        orders(admin).send(order).expect("the connection");
        let name = created.await.expect("a database");
        Self { url: url_of(admin, &name), admin: admin.to_owned(), name }
    }

    /// Drops the database. Does not wait for it if the server is discarded anyway.
    pub async fn remove(&self) {
        let (reply, dropped) = oneshot::channel();
        orders(&self.admin).send(Order::Drop { name: self.name.clone(), reply }).expect("the connection");
        if !harness::postgresql::is_own() {
            dropped.await.expect("a dropped database");
        }
    }
}

/// Work of the administrative connection.
enum Order {
    Create { template: String, reply: oneshot::Sender<String> },
    Drop { name: String, reply: oneshot::Sender<()> },
}

/// Returns the channel to the administrative connection of this process. It belongs to a thread, because connections
/// cannot be shared by the runtimes of the tests.
fn orders(admin: &str) -> &'static mpsc::UnboundedSender<Order> {
    static ORDERS: OnceLock<mpsc::UnboundedSender<Order>> = OnceLock::new();
    ORDERS.get_or_init(|| {
        let (sender, orders) = mpsc::unbounded_channel();
        let admin = admin.to_owned();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(administrate(&admin, orders));
        });
        sender
    })
}

async fn administrate(admin: &str, mut orders: mpsc::UnboundedReceiver<Order>) {
    let connection = connect(admin).await;
    let mut spares: HashMap<String, Vec<String>> = HashMap::new();
    let mut used: HashMap<String, usize> = HashMap::new();
    let mut idle = Vec::new();
    loop {
        let order = match orders.try_recv() {
            Ok(order) => order,
            // Drops and spare databases wait until no test waits.
            Err(_) => match idle.pop() {
                Some(Idle::Drop(name, reply)) => {
                    drop_database(&connection, &name).await;
                    // A test does not always wait.
                    let _ = reply.send(());
                    continue;
                }
                Some(Idle::Spare(template)) => {
                    let name = new_name();
                    create_database(&connection, &name, &template).await;
                    spares.entry(template).or_default().push(name);
                    continue;
                }
                None => match orders.recv().await {
                    Some(order) => order,
                    None => return,
                },
            },
        };
        match order {
            Order::Create { template, reply } => {
                let name = match spares.get_mut(&template).and_then(Vec::pop) {
                    Some(name) => name,
                    None => {
                        let name = new_name();
                        create_database(&connection, &name, &template).await;
                        name
                    }
                };
                // The test may have failed in the meantime. The next run drops the database.
                let _ = reply.send(name);
                let count = used.entry(template.clone()).or_default();
                *count += 1;
                // A process of nextest needs one database.
                if *count == 2 {
                    idle.extend((1..SPARES).map(|_| Idle::Spare(template.clone())));
                }
                if *count >= 2 {
                    idle.push(Idle::Spare(template));
                }
            }
            Order::Drop { name, reply } => idle.insert(0, Idle::Drop(name, reply)),
        }
    }
}

/// Work for a time in which no test waits. The last entry is the next one.
enum Idle {
    Drop(String, oneshot::Sender<()>),
    Spare(String),
}

fn new_name() -> String {
    let unique = hex::encode(rand::random::<[u8; 8]>());
    format!("{PREFIX}{}_{unique}", directory::supervisor_id())
}

fn url_of(admin: &str, name: &str) -> String {
    let (server, _) = admin.rsplit_once('/').expect("a database in the URL");
    format!("{server}/{name}")
}

async fn connect(url: &str) -> DatabaseConnection {
    let mut options = sea_orm::ConnectOptions::new(url);
    options.max_connections(1).sqlx_logging(false);
    sea_orm::Database::connect(options).await.expect("PostgreSQL")
}

async fn create_database(connection: &DatabaseConnection, name: &str, template: &str) {
    // Copying files is two to three times faster than logging all pages, the default since PostgreSQL 15. Older servers
    // copy files and do not have the option.
    let create = format!("CREATE DATABASE {name} TEMPLATE {template}");
    if connection.execute_unprepared(&format!("{create} STRATEGY FILE_COPY")).await.is_err() {
        connection.execute_unprepared(&create).await.expect("a database");
    }
}

async fn drop_database(connection: &DatabaseConnection, name: &str) {
    let drop = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
    connection.execute_unprepared(&drop).await.expect("dropping");
}

/// Drops the databases of earlier runs.
async fn remove_abandoned(admin: &str) {
    let connection = connect(admin).await;
    let all = "SELECT datname FROM pg_database WHERE datname LIKE 'holdfast\\_test\\_%'";
    let statement = sea_orm::Statement::from_string(sea_orm::DbBackend::Postgres, all);
    for row in connection.query_all_raw(statement).await.expect("databases") {
        let name: String = row.try_get("", "datname").expect("a name");
        let process = name.strip_prefix(PREFIX).and_then(|rest| rest.split('_').next());
        let running = process.is_some_and(|process| PathBuf::from("/proc").join(process).exists());
        if !running {
            drop_database(&connection, &name).await;
        }
    }
    connection.close().await.expect("closing");
}
