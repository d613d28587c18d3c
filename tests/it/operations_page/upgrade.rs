//! Upgrades: new binaries on old schemas, and old binaries on new schemas.

use std::process::Stdio;
use std::time::Duration;

use migration::{Migrator, MigratorTrait};
use rustix::process::{Pid, Signal, kill_process};
use sea_orm::{ConnectionTrait, Database, DatabaseBackend, DatabaseConnection, Statement, TransactionTrait};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr};

use crate::regressions::faults::load::{self, Load};
use crate::support::Client;
use crate::support::git::Work;
use crate::support::process::{Site, TOKEN, on_every_site};

/// Number of migrations in the first version of the schema.
const FIRST_MIGRATIONS: usize = 8;
/// A schema change of a newer version.
const NEWER: [&str; 5] = [
    "ALTER TABLE users ADD COLUMN newer TEXT",
    "ALTER TABLE issues ADD COLUMN newer INTEGER NOT NULL DEFAULT 0",
    "CREATE TABLE newer (id INTEGER PRIMARY KEY, name TEXT NOT NULL)",
    "CREATE INDEX ix_issues_newer ON issues (newer)",
    "INSERT INTO seaql_migrations (version, applied_at) VALUES ('m30001231_000001_newer', 0)",
];
/// Maximum time of a request while the schema changes, and of a start that is stopped.
const LIMIT: Duration = Duration::from_secs(45);

/// Runs statements in the database of a site.
async fn execute(site: &Site, statements: &[&str]) {
    let database = Database::connect(site.database_url()).await.expect("a database");
    for statement in statements {
        database.execute_unprepared(statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    database.close().await.expect("closing");
}

async fn server_starts_on_schema_of_first_migrations(site: Site) {
    site.serve(&[]).await.stop().await;
    let work = Work::new().await;
    site.import("p", &work.path).await;
    let token = site.succeeds(&["admin", "create-token", "root"]).await;
    let database = Database::connect(site.database_url()).await.expect("a database");
    let later = Migrator::migrations().len() - FIRST_MIGRATIONS;
    Migrator::down(&database, Some(u32::try_from(later).expect("a number"))).await.expect("older migrations");
    database.close().await.expect("closing");
    // The first version recorded no identity.
    std::fs::remove_file(site.data.join("instance.json")).expect("a file");
    std::fs::remove_file(site.data.join("repositories/.store-id")).expect("a file");

    let server = site.serve(&[]).await;
    for token in [TOKEN, token.trim()] {
        let client = Client::new(&server.base, Some(token));
        assert_eq!(client.get("/user").await.expect(200).json()["username"], "root");
        let project = client.get("/projects/root%2Fp").await.expect(200).json();
        client.post(&format!("/projects/{}/issues", project["id"]), json!({"title": "t"})).await.expect(201);
    }
    let head = work.git(&["rev-parse", "HEAD"]).await;
    let listed = work.git(&["ls-remote", &server.address("p"), "refs/heads/main"]).await;
    assert!(listed.starts_with(&head), "{listed}");
    work.commit("later", "x").await;
    work.git(&["push", "--quiet", &server.address("p"), "main"]).await;
    server.stop().await;
    site.assert_sound(1).await;
}

async fn running_server_continues_on_newer_schema(site: Site) {
    let server = site.serve(&[]).await;
    let work = load::create_project(&site).await;
    let load = Load::start(&server, &work, "w");
    load.progress(20).await;
    execute(&site, &NEWER).await;
    load.progress(20).await;
    let written = load.stop().await;
    written.check_failures(&[], LIMIT);
    written.check(&server).await;
    let client = Client::new(&server.base, Some(TOKEN));
    client.post("/projects", json!({"name": "q"})).await.expect(201);
    client
        .post("/users", json!({"username": "ann", "name": "Ann", "email": "ann@example.com", "reset_password": true}))
        .await
        .expect(201);
    server.stop().await;
    for command in [&["serve", "--listen", "127.0.0.1:0"][..], &["doctor"], &["backup", "copy"]] {
        let output = site.fails(command).await;
        assert!(output.contains("migrated by a newer version of Holdfast"), "{output}");
    }
}

/// A process during its start.
struct StartingProcess {
    child: Child,
    log: Lines<BufReader<ChildStderr>>,
    name: &'static str,
}

impl StartingProcess {
    fn new(site: &Site, name: &'static str) -> Self {
        let mut command = site.command(&[name]);
        command.env("HOLDFAST_LISTEN", "127.0.0.1:0").env("HOLDFAST_LOG", "info");
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the binary");
        let log = BufReader::new(child.stderr.take().expect("a log")).lines();
        Self { child, log, name }
    }

    /// Waits until the process logs an event.
    async fn logs(&mut self, event: &str) {
        let mut before = Vec::new();
        let logged = async {
            while let Some(line) = self.log.next_line().await.expect("a line") {
                if line.contains(event) {
                    return;
                }
                before.push(line);
            }
            let status = self.child.wait().await.expect("an exit");
            panic!("{} ended with {status}: {before:#?}", self.name);
        };
        tokio::time::timeout(LIMIT, logged).await.expect("an event");
    }

    /// Sends SIGTERM, which must end the process.
    async fn stop(mut self) {
        assert_eq!(self.child.try_wait().expect("a status"), None, "{} still starts", self.name);
        let id = i32::try_from(self.child.id().expect("a process")).expect("an ID");
        kill_process(Pid::from_raw(id).expect("an ID"), Signal::TERM).expect("a signal");
        let ended = tokio::time::timeout(LIMIT, self.child.wait()).await;
        let status = ended.expect("the signal ends the process").expect("an exit");
        assert_eq!(status.code(), Some(0), "{}: {status}", self.name);
        self.logs("stopped before the start was complete").await;
    }
}

/// Waits until a statement of a migration waits for the list of migrations on PostgreSQL.
async fn wait_for_locked_table(database: &DatabaseConnection) {
    const WAITING: &str = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'seaql_migrations'::regclass \
                           AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    let is_waiting = async || {
        let statement = Statement::from_string(DatabaseBackend::Postgres, WAITING);
        let row = database.query_one_raw(statement).await.expect("a count").expect("a row");
        row.try_get_by_index::<i64>(0).expect("a number") > 0
    };
    while !is_waiting().await {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn stop_signal_ends_process_that_waits_for_migration(site: Site) {
    const MIGRATES: &str = "started to migrate the schema";
    const WAITS: &str = "started to wait for another process that applies migrations";
    site.serve(&[]).await.stop().await;
    let database = Database::connect(site.database_url()).await.expect("a database");
    Migrator::down(&database, Some(1)).await.expect("the schema of an older version");
    let other = database.begin().await.expect("a transaction");
    // The migration can read the list of migrations, but not add itself.
    let is_postgresql = database.get_database_backend() == DatabaseBackend::Postgres;
    let lock = match is_postgresql {
        true => "LOCK TABLE seaql_migrations IN SHARE MODE",
        false => "DELETE FROM seaql_migrations WHERE version = ''",
    };
    other.execute_unprepared(lock).await.expect("a lock");
    let mut server = StartingProcess::new(&site, "serve");
    server.logs(MIGRATES).await;
    if is_postgresql {
        let waiting = tokio::time::timeout(LIMIT, wait_for_locked_table(&database)).await;
        waiting.expect("a migration that waits");
        let mut worker = StartingProcess::new(&site, "worker");
        worker.logs(WAITS).await;
        worker.stop().await;
    }
    server.stop().await;
    let mut worker = StartingProcess::new(&site, "worker");
    worker.logs(MIGRATES).await;
    worker.stop().await;
    other.rollback().await.expect("an end");
    database.close().await.expect("closing");
}

on_every_site![
    server_starts_on_schema_of_first_migrations,
    running_server_continues_on_newer_schema,
    stop_signal_ends_process_that_waits_for_migration,
];
