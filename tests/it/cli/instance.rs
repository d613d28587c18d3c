//! Matching and mismatched data directories and databases.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use sea_orm::{ConnectionTrait, Statement};
use storage::database::{Database, DatabaseOptions};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use crate::support::git::{self, Work};
use crate::support::process::{Process, Site, TOKEN, on_every_site};

/// Maximum time until a command is refused.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// All commands that open an instance, except `serve`.
const COMMANDS: [&[&str]; 9] = [
    &["doctor"],
    &["backup", "copy"],
    &["worker"],
    &["admin", "create-user", "eve", "--email", "eve@example.com"],
    &["admin", "create-token", "root"],
    &["admin", "users", "list"],
    &["admin", "import-repo", "--project", "root/q", "/missing"],
    &["admin", "sync-members", "--group", "g", "--allow-empty"],
    &["admin", "rotate-key"],
];
const SERVE: &[&str] = &["serve", "--listen", "127.0.0.1:0"];

/// Returns a command of the binary for a data directory. Without a URL, the command selects the database.
fn command(data: &Path, url: Option<&str>, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("HOLDFAST_")) {
        command.env_remove(name);
    }
    command.args(arguments).arg("--data-dir").arg(data);
    if let Some(url) = url {
        command.arg("--database-url").arg(url);
    }
    command
        .env("HOLDFAST_ROOT_TOKEN", TOKEN)
        .env("HOLDFAST_LOG", "warn")
        .current_dir(data.parent().expect("a parent"))
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

/// Runs a command that must exit with status 1, and returns its output.
async fn rejected(data: &Path, url: Option<&str>, arguments: &[&str]) -> String {
    let output = tokio::time::timeout(TIME_LIMIT, command(data, url, arguments).output()).await;
    let output = output.unwrap_or_else(|_| panic!("{arguments:?} does not exit")).expect("the binary");
    let printed = git::output_text(&output);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {printed}");
    assert!(!printed.contains("is ready"), "{arguments:?}: {printed}");
    printed
}

async fn serve(data: &Path, url: &str) -> Process {
    Site::ready(command(data, Some(url), SERVE)).await
}

/// Returns all files and directories below a directory.
fn entries(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        // SQLite creates and deletes these files while a database is open.
        if !path.to_string_lossy().ends_with("-shm") && !path.to_string_lossy().ends_with("-wal") {
            found.extend(entries(&path));
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Returns the instance ID in a data directory.
fn instance_id(data: &Path) -> String {
    let text = std::fs::read_to_string(data.join("instance.json")).expect("an instance file");
    let record: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    record["instance_id"].as_str().expect("an ID").to_owned()
}

async fn execute(url: &str, sql: &str) {
    let database = Database::connect(url, &DatabaseOptions::default()).await.expect("a database");
    database.write().execute_unprepared(sql).await.expect("a statement");
    database.close().await.expect("closing");
}

/// Removes the identity of an instance, as if an older version had created the instance.
async fn remove_identity(site: &Site) {
    std::fs::remove_file(site.data.join("instance.json")).expect("an instance file");
    std::fs::remove_file(site.data.join("repositories/.store-id")).expect("a store ID");
    execute(&site.database_url(), "DELETE FROM instances").await;
}

/// Creates an instance with one project that has a repository.
async fn with_project(site: &Site) -> Work {
    site.serve(&[]).await.stop().await;
    let work = Work::new().await;
    site.import("p", &work.path).await;
    work
}

async fn commands_reject_database_of_another_kind(site: Site) {
    with_project(&site).await;
    let before = entries(site.data.parent().unwrap());
    let (url, expected, found) = match site.kind {
        crate::support::DatabaseKind::Sqlite => (Some("postgres://user@127.0.0.1:1/none"), "SQLite", "PostgreSQL"),
        crate::support::DatabaseKind::Postgresql(_) => (None, "PostgreSQL", "SQLite"),
    };
    for arguments in COMMANDS.iter().copied().chain([SERVE]) {
        let printed = rejected(&site.data, url, arguments).await;
        let message = format!("belongs to an instance on {expected}, but the database URL names {found}");
        assert!(printed.contains(&message) && printed.contains("--database-url"), "{printed}");
    }
    let after = entries(site.data.parent().unwrap());
    assert_eq!(after.iter().filter(|path| !before.contains(path)).collect::<Vec<_>>(), Vec::<&PathBuf>::new());
}

async fn commands_create_no_database(site: Site) {
    with_project(&site).await;
    let other = site.another().await;
    let url = other.database_url();
    for arguments in COMMANDS.iter().copied().chain([SERVE]) {
        let printed = rejected(&site.data, Some(&url), arguments).await;
        assert!(printed.contains("--database-url"), "{printed}");
        assert!(!other.data.exists() && !site.sibling_path("copy").exists());
    }
    if let crate::support::DatabaseKind::Postgresql(_) = site.kind {
        let database = Database::connect(&url, &DatabaseOptions::default()).await.unwrap();
        let tables = "SELECT 1 AS one WHERE to_regclass('users') IS NOT NULL";
        let statement = Statement::from_string(database.backend(), tables);
        assert!(database.read().query_one_raw(statement).await.unwrap().is_none(), "a schema was made");
        database.close().await.unwrap();
    }
    other.remove().await;
}

async fn commands_reject_database_of_another_instance(site: Site) {
    with_project(&site).await;
    let other = site.another().await;
    with_project(&other).await;
    let (id, other_id) = (instance_id(&site.data), instance_id(&other.data));
    assert_ne!(id, other_id);
    for arguments in COMMANDS.iter().copied().chain([SERVE]) {
        let printed = rejected(&site.data, Some(&other.database_url()), arguments).await;
        let message = format!("belongs to the instance {id}, but the database belongs to the instance {other_id}");
        assert!(printed.contains(&message), "{printed}");
    }
    site.succeeds(&["doctor"]).await;
    other.succeeds(&["doctor"]).await;
    other.remove().await;
}

async fn serve_rejects_another_data_directory(site: Site) {
    let server = site.serve(&[]).await;
    let url = site.database_url();
    let fresh = site.sibling_path("fresh");
    let printed = rejected(&fresh, Some(&url), SERVE).await;
    let message = "has the key none and the repository store none; nodes of one instance share one data directory";
    assert!(printed.contains(message) && printed.contains(&instance_id(&site.data)), "{printed}");
    assert!(!fresh.join("secret.key").exists() && !fresh.join("repositories").exists());

    // A data directory with another key and other repositories.
    let own = Site::new(&crate::support::DatabaseKind::Sqlite).await;
    own.serve(&[]).await.stop().await;
    for file in ["instance.json", "serve.lock"] {
        std::fs::remove_file(own.data.join(file)).unwrap();
    }
    let printed = rejected(&own.data, Some(&url), SERVE).await;
    let stores = [&site, &own].map(|site| std::fs::read_to_string(site.data.join("repositories/.store-id")).unwrap());
    assert!(stores.iter().all(|store| printed.contains(store.trim())), "{printed}");
    assert!(!own.data.join("instance.json").exists());

    // A data directory with the key and the file of the instance, but without its repositories.
    let copied = site.sibling_path("copied");
    std::fs::create_dir(&copied).unwrap();
    for file in ["instance.json", "secret.key"] {
        std::fs::copy(site.data.join(file), copied.join(file)).unwrap();
    }
    let printed = rejected(&copied, Some(&url), SERVE).await;
    assert!(printed.contains("the repository store none"), "{printed}");
    assert!(!copied.join("repositories").exists());
    server.stop().await;
    site.succeeds(&["doctor"]).await;
}

async fn missing_instance_file_is_written_by_next_server(site: Site) {
    with_project(&site).await;
    let id = instance_id(&site.data);
    std::fs::remove_file(site.data.join("instance.json")).unwrap();
    site.succeeds(&["doctor"]).await;
    assert!(!site.data.join("instance.json").exists(), "only a server writes the file");
    site.serve(&[]).await.stop().await;
    assert_eq!(instance_id(&site.data), id);
}

async fn damaged_instance_file_is_rejected_until_it_is_removed(site: Site) {
    with_project(&site).await;
    let (file, id) = (site.data.join("instance.json"), instance_id(&site.data));
    for text in ["", "{", "{\"format\": 9}"] {
        std::fs::write(&file, text).unwrap();
        for arguments in [&["doctor"][..], SERVE] {
            let printed = rejected(&site.data, Some(&site.database_url()), arguments).await;
            assert!(printed.contains("instance.json is damaged") && printed.contains("remove it"), "{printed}");
        }
    }
    std::fs::remove_file(&file).unwrap();
    site.serve(&[]).await.stop().await;
    assert_eq!(instance_id(&site.data), id);
}

async fn data_directory_without_identity_gets_one_from_next_server(site: Site) {
    with_project(&site).await;
    remove_identity(&site).await;
    let copy = site.sibling_path("copy");
    site.succeeds(&["backup", copy.to_str().unwrap()]).await;
    assert!(!site.data.join("instance.json").exists());

    // Neither an empty database nor another directory is accepted as the missing part.
    let other = site.another().await;
    for arguments in [&["doctor"][..], SERVE] {
        let printed = rejected(&site.data, Some(&other.database_url()), arguments).await;
        assert!(printed.contains("--database-url"), "{printed}");
        let printed = rejected(&other.data, Some(&site.database_url()), arguments).await;
        assert!(printed.contains("--data-dir"), "{printed}");
    }
    assert!(!other.data.join("holdfast.db").exists() && !other.data.join("secret.key").exists());
    other.remove().await;

    site.serve(&[]).await.stop().await;
    assert_eq!(instance_id(&site.data).len(), 36);
    site.succeeds(&["doctor"]).await;
}

async fn restored_instance_has_another_identity(site: Site) {
    let work = with_project(&site).await;
    let copy = site.sibling_path("copy");
    let printed = site.succeeds(&["backup", copy.to_str().unwrap()]).await;
    assert!(printed.starts_with(&format!("Saved 1 repository and 0 objects to {}\n", copy.display())), "{printed}");
    let printed =
        rejected(&site.sibling_path("over"), Some(&site.database_url()), &["restore", copy.to_str().unwrap()]).await;
    assert!(printed.contains("is not empty") || printed.contains("exists"), "{printed}");
    let other = site.another().await;
    let printed = other.succeeds(&["restore", copy.to_str().unwrap()]).await;
    assert!(printed.starts_with("Restored 1 repository and 0 objects of "), "{printed}");
    assert_ne!(instance_id(&site.data), instance_id(&other.data));
    for (one, another) in [(&site, &other), (&other, &site)] {
        let printed = rejected(&one.data, Some(&another.database_url()), SERVE).await;
        assert!(printed.contains("to the same instance"), "{printed}");
    }
    other.succeeds(&["doctor"]).await;
    let server = other.serve(&[]).await;
    work.git(&["ls-remote", "--exit-code", &server.address("p"), "refs/heads/main"]).await;
    server.stop().await;
    for name in ["q", "r"] {
        other.import(name, &work.path).await;
    }
    let again = other.sibling_path("again");
    let printed = other.succeeds(&["backup", again.to_str().unwrap()]).await;
    assert!(printed.starts_with(&format!("Saved 3 repositories and 0 objects to {}\n", again.display())), "{printed}");
    other.remove().await;
}

async fn concurrent_first_starts_create_one_identity(site: Site) {
    let url = site.database_url();
    let start = || {
        let mut command = command(&site.data, Some(&url), SERVE);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary")
    };
    let mut nodes = [start(), start(), start()];
    // On SQLite one server starts; on PostgreSQL all of them start.
    let mut ready = Vec::new();
    for node in &mut nodes {
        let mut lines = BufReader::new(node.stdout.take().expect("its output")).lines();
        let is_ready = async {
            while let Some(line) = lines.next_line().await.expect("a line") {
                if line.starts_with("Health: ") {
                    return true;
                }
            }
            false
        };
        ready.push(tokio::time::timeout(TIME_LIMIT, is_ready).await.expect("a start or an exit"));
    }
    let expected = match site.kind {
        crate::support::DatabaseKind::Sqlite => 1,
        crate::support::DatabaseKind::Postgresql(_) => nodes.len(),
    };
    let mut printed = String::new();
    for (node, ready) in nodes.into_iter().zip(&ready) {
        if !ready {
            printed.push_str(&git::output_text(&node.wait_with_output().await.unwrap()));
        }
    }
    assert_eq!(ready.iter().filter(|ready| **ready).count(), expected, "{printed}");
    assert!(kind_is_postgresql(&site.kind) || printed.contains("on SQLite an instance has one server"), "{printed}");
    site.succeeds(&["doctor"]).await;
}

async fn data_directory_of_killed_server_can_be_served_again(site: Site) {
    let server = site.serve(&[]).await;
    if !kind_is_postgresql(&site.kind) {
        let printed = rejected(&site.data, Some(&site.database_url()), SERVE).await;
        assert!(printed.contains(&format!("is served by the process {}", server.id())), "{printed}");
    }
    server.kill().await;
    let server = serve(&site.data, &site.database_url()).await;
    server.stop().await;
    site.serve(&[]).await.stop().await;
}

async fn serve_prints_each_address_once(site: Site) {
    let mut command = command(&site.data, Some(&site.database_url()), SERVE);
    let command = command.env("HOLDFAST_LOG", "info").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut server = command.spawn().expect("the binary");
    let mut output = BufReader::new(server.stdout.take().expect("its output")).lines();
    let mut lines = Vec::new();
    let reading = async {
        while let Some(line) = output.next_line().await.expect("a line") {
            if line.starts_with("Health: ") {
                let process = server.id().and_then(|id| Pid::from_raw(i32::try_from(id).expect("an ID")));
                kill_process(process.expect("a process"), Signal::TERM).expect("a signal");
            }
            lines.push(line);
        }
    };
    tokio::time::timeout(TIME_LIMIT, reading).await.expect("a start and an end");
    let log = server.wait_with_output().await.expect("an end");
    lines.extend(String::from_utf8_lossy(&log.stderr).lines().map(str::to_owned));
    let api = lines.iter().find_map(|line| line.strip_prefix("API: ")).expect("the address of the API");
    let base = api.strip_suffix("/api/v4").expect("a base URL");
    for line in [
        format!("API: {base}/api/v4"),
        format!("Docs: {base}/docs"),
        format!("Git: {base}/GROUP/PROJECT.git"),
        format!("Health: {base}/-/health"),
    ] {
        assert_eq!(lines.iter().filter(|printed| **printed == line).count(), 1, "{line}: {lines:#?}");
    }
    let urls = lines.iter().filter(|line| line.contains(base)).count();
    assert_eq!(urls, 4, "{lines:#?}");
}

on_every_site![
    serve_prints_each_address_once,
    commands_reject_database_of_another_kind,
    commands_create_no_database,
    commands_reject_database_of_another_instance,
    serve_rejects_another_data_directory,
    missing_instance_file_is_written_by_next_server,
    damaged_instance_file_is_rejected_until_it_is_removed,
    data_directory_without_identity_gets_one_from_next_server,
    restored_instance_has_another_identity,
    concurrent_first_starts_create_one_identity,
    data_directory_of_killed_server_can_be_served_again,
];

fn kind_is_postgresql(kind: &crate::support::DatabaseKind) -> bool {
    matches!(kind, crate::support::DatabaseKind::Postgresql(_))
}
