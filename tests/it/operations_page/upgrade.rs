//! Upgrades: new binaries on old schemas, and old binaries on new schemas.

use std::process::Stdio;
use std::time::Duration;

use migration::{Migrator, MigratorTrait};
use rustix::process::{Pid, Signal, kill_process};
use sea_orm::{ConnectionTrait, Database, DatabaseBackend, TransactionTrait};
use serde_json::json;

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

/// Waits until a process handles SIGTERM.
async fn wait_for_handler(process: Pid) {
    let path = format!("/proc/{}/status", process.as_raw_nonzero());
    let handles_signal = || {
        let status = std::fs::read_to_string(&path).expect("a process");
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("a mask");
        let mask = u64::from_str_radix(mask.trim(), 16).expect("a number");
        (mask >> (Signal::TERM.as_raw() - 1)) & 1 == 1
    };
    while !handles_signal() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn stop_signal_ends_process_that_waits_for_migration(site: Site) {
    site.serve(&[]).await.stop().await;
    let database = Database::connect(site.database_url()).await.expect("a database");
    Migrator::down(&database, Some(1)).await.expect("the schema of an older version");
    let other = database.begin().await.expect("a transaction");
    // The migration can read the list of migrations, but not add itself.
    let lock = match database.get_database_backend() {
        DatabaseBackend::Postgres => "LOCK TABLE seaql_migrations IN SHARE MODE",
        _ => "DELETE FROM seaql_migrations WHERE version = ''",
    };
    other.execute_unprepared(lock).await.expect("a lock");
    for process in ["serve", "worker"] {
        let mut command = site.command(&[process]);
        command.env("HOLDFAST_LISTEN", "127.0.0.1:0").stdout(Stdio::null());
        let mut child = command.spawn().expect("the binary");
        let id = i32::try_from(child.id().expect("a process")).expect("an ID");
        let id = Pid::from_raw(id).expect("an ID");
        let ended = async {
            wait_for_handler(id).await;
            kill_process(id, Signal::TERM).expect("a signal");
            child.wait().await.expect("an exit")
        };
        let status = tokio::time::timeout(LIMIT, ended).await.expect("the signal ends the process");
        assert_eq!(status.code(), Some(0), "{process}: {status}");
    }
    other.rollback().await.expect("an end");
    database.close().await.expect("closing");
}

on_every_site![
    server_starts_on_schema_of_first_migrations,
    running_server_continues_on_newer_schema,
    stop_signal_ends_process_that_waits_for_migration,
];
