//! A disk without space: requests fail with a clear error, nothing acknowledged is lost, and the server recovers by itself.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::json;

use crate::registry::registry_protocol::{Tool, digest, noise};
use crate::support::git::Work;
use crate::support::process::{Site, TOKEN};
use crate::support::{ApiResponse, Client, DatabaseKind, mounts};

/// Options of the file system of the data directory.
const DISK: &str = "size=32m";
/// Maximum number of requests until the disk of an embedded database is full.
const MAX_REQUESTS: usize = 40;

/// Fills a directory's file system, and returns the file to remove.
fn fill(directory: &Path) -> PathBuf {
    let path = directory.join("ballast");
    let mut file = std::fs::File::create(&path).unwrap();
    // Ends with the last page, which a write of more bytes would not use.
    while file.write_all(&[0; 4096]).is_ok() {}
    path
}

/// Requests that write files outside of the database and of the repositories.
struct Files<'a> {
    root: &'a Client,
    project: &'a str,
    images: &'a Tool,
}

impl Files<'_> {
    /// Sends each request once, and returns the responses.
    async fn write_all(&self) -> Vec<(&'static str, ApiResponse)> {
        let form = Form::new().part("file", Part::bytes(noise(100_000, 1)).file_name("a.bin"));
        let upload = self.root.request(Method::POST, &format!("{}/uploads", self.project)).multipart(form);
        let layer = noise(100_000, 2);
        let blob = self.images.path(&format!("blobs/uploads/?digest={}", digest(&layer)));
        vec![
            ("upload", self.root.send(upload).await),
            ("blob", self.images.send(Method::POST, &blob, &[], layer).await),
        ]
    }
}

async fn full_disk_loses_nothing(kind: DatabaseKind) {
    let site = Site::new(&kind).await;
    let server = mounts::serve_in_memory(&site, DISK).await;
    let root = Client::new(&server.base, Some(TOKEN));
    let created = root.post("/projects", json!({"name": "p", "initialize_with_readme": true})).await.expect(201);
    let project = format!("/projects/{}", created.json()["id"]);
    let add = async |name: &str| {
        let content = hex::encode(rand::random::<[u8; 32]>()).repeat(500);
        let body = json!({"branch": "main", "content": content, "commit_message": "Add"});
        root.post(&format!("{project}/repository/files/{name}"), body).await
    };
    add("kept").await.expect(201);
    let images = Tool::new(&server.base, Some(("root", TOKEN)), "root/p", "pull,push").await;
    let files = Files { root: &root, project: &project, images: &images };
    // The server reads the space every three seconds.
    let readiness = async |status: u16, disk: &str| {
        let changed = async {
            loop {
                let response = root.get("//-/readiness").await;
                if response.json()["checks"]["disk"] == disk {
                    return response.expect(status);
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), changed).await.unwrap();
    };
    readiness(200, "low").await;
    let disk = Path::new("/proc").join(server.id().to_string()).join("root");
    let ballast = fill(&disk.join(site.data.strip_prefix("/").unwrap()));
    readiness(503, "full").await;
    root.get("//-/liveness").await.expect(200);
    let metrics = root.get("//-/metrics").await.expect(200).text();
    assert!(metrics.contains("holdfast_disk_size_bytes 33554432"), "{metrics}");

    let refused = add("lost").await.expect(507);
    assert_eq!(refused.message(), "507 Insufficient Storage - No space is left on the disk of the server");
    for (file, response) in files.write_all().await {
        assert_eq!(response.status, 507, "{file}: {}", response.text());
        assert!(response.text().contains("o space is left on the disk of the server"), "{}", response.text());
    }
    if matches!(kind, DatabaseKind::Sqlite) {
        let issue = json!({"title": "Full", "description": "x".repeat(500_000)});
        let mut statuses = Vec::new();
        while statuses.last() != Some(&507) {
            assert!(statuses.len() < MAX_REQUESTS && statuses.iter().all(|status| *status == 201), "{statuses:?}");
            statuses.push(root.post(&format!("{project}/issues"), issue.clone()).await.status);
        }
    }
    root.get(&format!("{project}/repository/files/kept?ref=main")).await.expect(200);
    root.get(&format!("{project}/repository/files/lost?ref=main")).await.expect(404);
    let clones = Work::empty();
    let address = server.address("p");
    clones.git(&["clone", "--quiet", &address, "c"]).await;
    let clone = clones.below("c");
    let tip = clone.commit("pushed", &hex::encode(rand::random::<[u8; 32]>())).await;
    assert!(!clone.run(&["push", "--quiet", "origin", "main"]).await.status.success());
    let report = mounts::run(&site, &server, &["doctor"]).await;
    assert!(report.contains("less than the 1024 MiB of low_disk_bytes"), "{report}");

    std::fs::remove_file(ballast).unwrap();
    readiness(200, "low").await;
    clone.git(&["push", "--quiet", "origin", "main"]).await;
    assert_eq!(root.get(&format!("{project}/repository/branches/main")).await.expect(200).json()["commit"]["id"], tip);
    add("lost").await.expect(201);
    for (file, response) in files.write_all().await {
        assert_eq!(response.status, 201, "{file}: {}", response.text());
    }
    root.post(&format!("{project}/issues"), json!({"title": "Space"})).await.expect(201);
    let report = mounts::run(&site, &server, &["doctor", "--low-disk-bytes", "1"]).await;
    assert!(report.contains("Problems: 0."), "{report}");
    server.stop().await;
    site.remove().await;
}

/// Script that mounts a file system without room for a file at the first argument, and replaces itself by the program of
/// the others, which uses it for temporary files.
const NO_TEMPORARY_FILES: &str =
    r#"mkdir "$0" && mount -t tmpfs -o nr_inodes=1 tmpfs "$0" && export TMPDIR="$0" && exec "$@""#;

async fn full_directory_of_temporary_files_refuses_pushes_clearly() {
    let site = Site::new(&DatabaseKind::Sqlite).await;
    // The first start of SQLite needs temporary files too.
    site.serve(&[]).await.stop().await;
    let directory = site.sibling_path("tmp");
    let server = Site::ready(mounts::serve_command(&site, NO_TEMPORARY_FILES, &directory)).await;
    let work = Work::new().await;
    site.import("p", &work.path).await;
    let root = Client::new(&server.base, Some(TOKEN));
    let body = json!({"branch": "main", "content": "x", "commit_message": "Add"});
    root.post("/projects/root%2Fp/repository/files/api", body).await.expect(201);
    let push = ["push", "--quiet", &server.address("p"), "main:pushed"];
    let output = work.fails(&push).await;
    assert!(output.contains("HTTP 507"), "{output}");
    root.get("/projects/root%2Fp/repository/branches/pushed").await.expect(404);
    let path = directory.to_str().unwrap();
    let enlarged = mounts::output(&server, &["mount", "-o", "remount,nr_inodes=1000", path]).await;
    assert!(enlarged.status.success(), "{enlarged:?}");
    work.git(&push).await;
    root.get("/projects/root%2Fp/repository/branches/pushed").await.expect(200);
    server.stop().await;
}

async fn full_disk_loses_nothing_on_sqlite() {
    full_disk_loses_nothing(DatabaseKind::Sqlite).await;
}

async fn full_disk_loses_nothing_on_postgresql() {
    full_disk_loses_nothing(DatabaseKind::postgresql()).await;
}

harness::tests![requires mounts::missing; full_disk_loses_nothing_on_sqlite,
    full_directory_of_temporary_files_refuses_pushes_clearly,
];
harness::tests![requires mounts::or_postgresql_missing; full_disk_loses_nothing_on_postgresql];
