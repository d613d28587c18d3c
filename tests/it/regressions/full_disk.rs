//! A disk without space: requests fail with a clear error, nothing acknowledged is lost, and the server recovers by itself.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command as StdCommand, Stdio};
use std::sync::LazyLock;

use serde_json::json;
use tokio::process::Command;

use crate::support::git::{Work, output_text};
use crate::support::process::{Process, Site, TOKEN};
use crate::support::{Client, DatabaseKind};

/// Options of the file system of the data directory.
const DISK: &str = "size=32m";
/// Mounts a file system at the first argument, and replaces itself by the program of the others.
const SCRIPT: &str = r#"mkdir -p "$0" && mount -t tmpfs -o "$OPTIONS" tmpfs "$0" && chmod 700 "$0" && exec "$@""#;
/// Options of `unshare` for a process with its own mounts. Only root can have them without its own users, and needs the
/// original users to reach PostgreSQL.
fn own_mounts() -> &'static [&'static str] {
    match rustix::process::getuid().is_root() {
        true => &["--mount"],
        false => &["--user", "--map-root-user", "--mount"],
    }
}

/// Maximum number of requests until the disk of an embedded database is full.
const MAX_REQUESTS: usize = 40;

/// The requirement of tests with a small disk.
fn mounts_are_missing() -> Option<&'static str> {
    static CAN_MOUNT: LazyLock<bool> = LazyLock::new(|| {
        let mut command = StdCommand::new("unshare");
        command.args(own_mounts()).args(["sh", "-c", "mount -t tmpfs tmpfs /tmp"]);
        let done = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        done.is_ok_and(|status| status.success())
    });
    (!*CAN_MOUNT).then_some(
        "The test needs a file system of its own. Install unshare (Debian: util-linux), and allow users to create namespaces.",
    )
}

/// Starts a server whose data directory is a small file system.
async fn serve(site: &Site) -> Process {
    let plain = site.command(&["serve", "--listen", "127.0.0.1:0"]);
    let plain = plain.as_std();
    let mut command = Command::new("unshare");
    command.args(own_mounts()).args(["sh", "-c", SCRIPT]).arg(&site.data);
    command.arg(plain.get_program()).args(plain.get_args()).env("OPTIONS", DISK);
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.stdin(Stdio::null()).kill_on_drop(true);
    Site::ready(command).await
}

/// Runs a command of the binary with the mounts of the server.
async fn run(site: &Site, server: &Process, arguments: &[&str]) -> String {
    let plain = site.command(arguments);
    let plain = plain.as_std();
    let mut words: Vec<OsString> = vec![plain.get_program().to_owned()];
    words.extend(plain.get_args().map(OsString::from));
    let id = server.id().to_string();
    let namespaces = &own_mounts()[own_mounts().len() - 1..];
    let users = if own_mounts().len() > 1 { &["--user"][..] } else { &[] };
    let entered = Command::new("nsenter").args(["--target", &id]).args(users).args(namespaces).args(words).output();
    output_text(&entered.await.unwrap())
}

/// Fills a directory's file system, and returns the file to remove.
fn fill(directory: &Path) -> PathBuf {
    let path = directory.join("ballast");
    let mut file = std::fs::File::create(&path).unwrap();
    // Ends with the last page, which a write of more bytes would not use.
    while file.write_all(&[0; 4096]).is_ok() {}
    path
}

async fn full_disk_loses_nothing(kind: DatabaseKind) {
    let site = Site::new(&kind).await;
    let server = serve(&site).await;
    let root = Client::new(&server.base, Some(TOKEN));
    let created = root.post("/projects", json!({"name": "p", "initialize_with_readme": true})).await.expect(201);
    let project = format!("/projects/{}", created.json()["id"]);
    let add = async |name: &str| {
        let content = hex::encode(rand::random::<[u8; 32]>()).repeat(500);
        let body = json!({"branch": "master", "content": content, "commit_message": "Add"});
        root.post(&format!("{project}/repository/files/{name}"), body).await
    };
    add("kept").await.expect(201);
    let readiness = async |status: u16| root.get("//-/readiness").await.expect(status).json()["checks"]["disk"].clone();
    assert_eq!(readiness(200).await, "low");
    let disk = Path::new("/proc").join(server.id().to_string()).join("root");
    let ballast = fill(&disk.join(site.data.strip_prefix("/").unwrap()));
    assert_eq!(readiness(503).await, "full");
    root.get("//-/liveness").await.expect(200);
    let metrics = root.get("//-/metrics").await.expect(200).text();
    assert!(metrics.contains("holdfast_disk_size_bytes 33554432"), "{metrics}");

    let refused = add("lost").await.expect(507);
    assert_eq!(refused.message(), "507 Insufficient Storage - No space is left on the disk of the server");
    if matches!(kind, DatabaseKind::Sqlite) {
        let issue = json!({"title": "Full", "description": "x".repeat(500_000)});
        let mut statuses = Vec::new();
        while statuses.last() != Some(&507) {
            assert!(statuses.len() < MAX_REQUESTS && statuses.iter().all(|status| *status == 201), "{statuses:?}");
            statuses.push(root.post(&format!("{project}/issues"), issue.clone()).await.status);
        }
    }
    root.get(&format!("{project}/repository/files/kept?ref=master")).await.expect(200);
    root.get(&format!("{project}/repository/files/lost?ref=master")).await.expect(404);
    let clones = Work::empty();
    let address = server.address("p");
    clones.git(&["clone", "--quiet", &address, "c"]).await;
    let clone = clones.below("c");
    let tip = clone.commit("pushed", &hex::encode(rand::random::<[u8; 32]>())).await;
    assert!(!clone.run(&["push", "--quiet", "origin", "master"]).await.status.success());
    let report = run(&site, &server, &["doctor"]).await;
    assert!(report.contains("less than the 1024 MiB of low_disk_bytes"), "{report}");

    std::fs::remove_file(ballast).unwrap();
    assert_eq!(readiness(200).await, "low");
    clone.git(&["push", "--quiet", "origin", "master"]).await;
    assert_eq!(
        root.get(&format!("{project}/repository/branches/master")).await.expect(200).json()["commit"]["id"],
        tip
    );
    add("lost").await.expect(201);
    root.post(&format!("{project}/issues"), json!({"title": "Space"})).await.expect(201);
    let report = run(&site, &server, &["doctor", "--low-disk-bytes", "1"]).await;
    assert!(report.contains("Problems: 0."), "{report}");
    server.stop().await;
    site.remove().await;
}

async fn full_disk_loses_nothing_on_sqlite() {
    full_disk_loses_nothing(DatabaseKind::Sqlite).await;
}

async fn full_disk_loses_nothing_on_postgresql() {
    full_disk_loses_nothing(DatabaseKind::postgresql()).await;
}

/// The requirements of a small disk and of PostgreSQL.
fn mounts_or_postgresql_are_missing() -> Option<&'static str> {
    mounts_are_missing().or_else(harness::postgresql::missing)
}

harness::tests![requires mounts_are_missing; full_disk_loses_nothing_on_sqlite];
harness::tests![requires mounts_or_postgresql_are_missing; full_disk_loses_nothing_on_postgresql];
