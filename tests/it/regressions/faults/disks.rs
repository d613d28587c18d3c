//! Disks that do not respond, fail, or are mounted read-only.

use std::time::Duration;

use serde_json::json;

use super::load::{self, Load};
use crate::support::disks::{self, Disk};
use crate::support::git::Work;
use crate::support::process::{Process, Site, TOKEN};
use crate::support::{Client, DatabaseKind, mounts};

/// Maximum time of a request: that of the server, and the time of a response on a busy machine.
const LIMIT: Duration = Duration::from_secs(75);
/// Statuses of failed requests.
const CLEAR: [u16; 2] = [503, 507];

/// Waits until the readiness has this status and this state of the repositories.
async fn readiness(root: &Client, status: u16, repositories: &str) {
    let changed = async {
        loop {
            let response = root.get("//-/readiness").await;
            if response.status == status && response.json()["checks"]["repositories"] == repositories {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(LIMIT, changed).await.expect("a change of the readiness");
}

/// Commits a file through the API, which must succeed.
async fn commit(root: &Client, file: &str) {
    let actions = json!([{ "action": "create", "file_path": file, "content": "x" }]);
    let body = json!({ "branch": "main", "commit_message": "Add", "actions": actions });
    root.post("/projects/root%2Fp/repository/commits", body).await.expect(201);
}

/// Checks the instance with the mounts of a running server.
async fn assert_sound(site: &Site, server: &Process) {
    let report = mounts::run(site, server, &["doctor", "--low-disk-bytes", "1"]).await;
    assert!(report.contains("Problems: 0."), "{report}");
}

/// A server with a project and a disk of its own.
struct Served {
    site: Site,
    work: Work,
    disk: Disk,
    server: Process,
    root: Client,
}

/// Starts a server with a disk that contains `directory` of the data directory; all of it if `directory` is empty.
async fn serve(kind: &DatabaseKind, directory: &str) -> Served {
    let site = Site::migrated(kind).await;
    site.serve(&[]).await.stop().await;
    let work = load::create_project(&site).await;
    let mut disk = Disk::new(&site, site.data.join(directory));
    let server = disk.serve(&site).await;
    let root = Client::new(&server.base, Some(TOKEN));
    Served { site, work, disk, server, root }
}

async fn read_only_disk(kind: DatabaseKind) {
    // Not the whole data directory: SQLite has files open, so the disk could not be mounted read-only.
    let Served { site, work, disk, server, root } = serve(&kind, "repositories").await;
    let load = Load::start(&server, &work, "a");
    load.progress(6).await;
    let mut written = load.stop().await;
    written.check_failures(&[], LIMIT);

    disk.remount(&server, "bind,ro").await;
    readiness(&root, 503, "failed").await;
    root.get("//-/liveness").await.expect(200);
    let load = Load::start(&server, &work, "b");
    load.fail(6).await;
    let refused = load.stop().await;
    refused.check_failures(&[503], LIMIT);
    assert!(refused.files.is_empty() && refused.tip.is_none(), "{refused:?}");
    let api = refused.failures.iter().find(|failure| failure.status == 503).expect("a failed commit");
    assert_eq!(api.message, "503 Service Unavailable - The disk of the server is read-only");
    written.extend(refused);
    // Reads continue, also those of the Git client.
    root.get("/projects/root%2Fp/repository/files/README?ref=main").await.expect(200);
    written.check(&server).await;

    disk.remount(&server, "bind,rw").await;
    readiness(&root, 200, "ok").await;
    commit(&root, "later").await;
    let load = Load::start(&server, &work, "c");
    load.progress(6).await;
    written.extend(load.stop().await);
    written.check_failures(&[503], LIMIT);
    written.check(&server).await;
    assert_sound(&site, &server).await;
    server.stop().await;
    site.remove().await;
}

/// Freezes the disk under load, and runs `during` before it thaws.
async fn frozen_disk(kind: DatabaseKind, directory: &str, during: impl AsyncFnOnce(&Client)) {
    let Served { site, work, disk, server, root } = serve(&kind, directory).await;
    let load = Load::start(&server, &work, "w");
    load.progress(6).await;
    let frozen = disk.freeze(&server);
    readiness(&root, 503, "failed").await;
    root.get("//-/liveness").await.expect(200);
    during(&root).await;
    drop(frozen);
    load.progress(6).await;
    readiness(&root, 200, "ok").await;
    let written = load.stop().await;
    written.check_failures(&[503], LIMIT);
    written.check(&server).await;
    assert_sound(&site, &server).await;
    server.stop().await;
    site.remove().await;
}

/// Sends requests that do not write to the disk of the repositories.
async fn requests_without_repository(root: &Client) {
    root.get("/projects/root%2Fp/issues").await.expect(200);
    root.post("/projects/root%2Fp/issues", json!({ "title": "Frozen" })).await.expect(201);
    root.get("/projects/root%2Fp/repository/files/README?ref=main").await.expect(200);
}

/// The database and the repositories are on the frozen disk.
async fn frozen_disk_of_sqlite_delays_writes_until_it_thaws() {
    frozen_disk(DatabaseKind::Sqlite, "", async |_| {}).await;
}

/// The repositories are on the failed disk, and the database is not.
async fn failed_disk_refuses_writes_and_loses_nothing_acknowledged_on_postgresql() {
    let Served { site, work, mut disk, server, root } = serve(&DatabaseKind::postgresql(), "").await;
    let load = Load::start(&server, &work, "a");
    load.progress(6).await;
    // From now on the kernel refuses every write, as after an error of the device.
    disk.remount(&server, "abort").await;
    load.fail(6).await;
    let mut written = load.stop().await;
    written.check_failures(&CLEAR, LIMIT);
    readiness(&root, 503, "failed").await;
    root.get("//-/liveness").await.expect(200);
    let load = Load::start(&server, &work, "b");
    load.fail(4).await;
    let refused = load.stop().await;
    refused.check_failures(&CLEAR, LIMIT);
    assert!(refused.files.is_empty() && refused.tip.is_none(), "{refused:?}");
    written.extend(refused);
    server.kill().await;

    disk.repair().await;
    let server = disk.serve(&site).await;
    written.check(&server).await;
    let load = Load::start(&server, &work, "c");
    load.progress(6).await;
    let later = load.stop().await;
    later.check_failures(&[], LIMIT);
    assert_sound(&site, &server).await;
    server.stop().await;
    site.remove().await;
}

/// The disk fails right after each push. No later write stores the references too, as the database is on another disk.
async fn acknowledged_pushes_survive_failed_disk_on_postgresql() {
    let Served { site, work, mut disk, mut server, .. } = serve(&DatabaseKind::postgresql(), "").await;
    let created = work.git(&["rev-parse", "HEAD"]).await;
    let changed = work.commit("changed", "1").await;
    for (refspec, expected) in [
        (format!("{created}:refs/heads/new/branch"), created.as_str()),
        (format!("{changed}:refs/heads/new/branch"), &changed),
        (":refs/heads/new/branch".to_owned(), ""),
    ] {
        work.git(&["push", "--quiet", &server.address("p"), &refspec]).await;
        disk.remount(&server, "abort").await;
        server.kill().await;
        disk.repair().await;
        server = disk.serve(&site).await;
        let references = work.git(&["ls-remote", &server.address("p"), "refs/heads/new/*"]).await;
        let found = references.split_whitespace().next().unwrap_or_default();
        assert_eq!(found, expected, "{refspec}: {references}");
    }
    assert_sound(&site, &server).await;
    server.stop().await;
    site.remove().await;
}

async fn read_only_disk_refuses_writes_until_it_is_writable_on_sqlite() {
    read_only_disk(DatabaseKind::Sqlite).await;
}

async fn read_only_disk_refuses_writes_until_it_is_writable_on_postgresql() {
    read_only_disk(DatabaseKind::postgresql()).await;
}

async fn frozen_disk_of_repositories_delays_only_git_on_sqlite() {
    frozen_disk(DatabaseKind::Sqlite, "repositories", requests_without_repository).await;
}

async fn frozen_disk_of_repositories_delays_only_git_on_postgresql() {
    frozen_disk(DatabaseKind::postgresql(), "repositories", requests_without_repository).await;
}

harness::tests![requires disks::missing; read_only_disk_refuses_writes_until_it_is_writable_on_sqlite,
    frozen_disk_of_repositories_delays_only_git_on_sqlite, frozen_disk_of_sqlite_delays_writes_until_it_thaws,
];
harness::tests![requires disks::or_postgresql_missing; read_only_disk_refuses_writes_until_it_is_writable_on_postgresql,
    frozen_disk_of_repositories_delays_only_git_on_postgresql,
    failed_disk_refuses_writes_and_loses_nothing_acknowledged_on_postgresql,
    acknowledged_pushes_survive_failed_disk_on_postgresql,
];
