//! Housekeeping, size and directory of the repository of a project.

use std::path::{Path, PathBuf};

use serde_json::json;
use storage::entities::Visibility;

use crate::support::code::Project;
use crate::support::git::Work;
use crate::support::spaces::join;
use crate::support::{Client, TestServer, on_every_database};

/// Returns the directory of the repository of a project.
async fn directory(server: &TestServer, project: i64) -> PathBuf {
    let shown = server.root().get(&format!("/projects/{project}/storage")).await.expect(200).json();
    assert_eq!((&shown["project_id"], &shown["repository_storage"]), (&json!(project), &json!("default")));
    assert!(shown["created_at"].is_string(), "{shown}");
    server.backend.repositories.directory().join(shown["disk_path"].as_str().expect("a text"))
}

/// Returns the numbers of packs and of loose objects.
fn objects(directory: &Path) -> (usize, usize) {
    let names = |path: PathBuf| {
        let entries = std::fs::read_dir(path).expect("a directory").flatten();
        entries.map(|entry| entry.file_name().into_string().expect("a text")).collect::<Vec<_>>()
    };
    let packs = names(directory.join("objects/pack")).into_iter().filter(|name| name.ends_with(".pack"));
    let folders = names(directory.join("objects")).into_iter().filter(|name| name.len() == 2);
    (packs.count(), folders.map(|folder| names(directory.join("objects").join(folder)).len()).sum())
}

async fn start(client: &Client, project: i64, task: &str, status: u16) {
    let response = client.post(&format!("/projects/{project}/housekeeping"), json!({ "task": task })).await;
    assert!(response.expect(status).body.is_empty() || status != 201);
}

async fn storage_is_the_directory_of_the_repository(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    let directory = directory(&server, project.id).await;
    assert!(directory.join("HEAD").is_file(), "{directory:?}");
    let owner = server.create_user("owner").await;
    join(&server.root(), &format!("/projects/{}", project.id), owner.id, 40).await;
    owner.client.get(&format!("/projects/{}/storage", project.id)).await.expect(403);
}

async fn prune_writes_one_pack_and_keeps_recent_objects(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    let root = server.root();
    for number in 0..3 {
        let body = json!({"branch": "main", "content": "x", "commit_message": "Add a file"});
        root.post(&format!("/projects/{}/repository/files/file-{number}", project.id), body).await.expect(201);
    }
    let unreachable = project.id("main");
    server.finish_jobs().await;
    let directory = directory(&server, project.id).await;
    assert!(objects(&directory).1 > 0, "{:?}", objects(&directory));
    project.git(&["update-ref", "refs/heads/main", "main~1"]);
    start(&root, project.id, "prune", 201).await;
    server.finish_jobs().await;
    assert_eq!(objects(&directory).1, 0);
    let reachable = project.id("main");
    for commit in [reachable, unreachable] {
        project.git(&["cat-file", "-e", &commit]);
    }
    project.git(&["fsck", "--strict", "--no-dangling"]);
}

async fn scheduled_task_is_not_scheduled_twice(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    let root = server.root();
    server.finish_jobs().await;
    for task in ["eager", "prune"] {
        start(&root, project.id, task, 201).await;
        start(&root, project.id, task, 409).await;
    }
    server.finish_jobs().await;
    root.post(&format!("/projects/{}/housekeeping", project.id), json!({})).await.expect(201);
    start(&root, project.id, "eager", 409).await;
    start(&root, project.id, "unknown", 400).await;
    root.post(&format!("/projects/{}/archive", project.id), json!({})).await.expect(201);
    start(&root, project.id, "prune", 201).await;
}

async fn size_is_measured_on_request(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    let root = server.root();
    server.finish_jobs().await;
    let size = async || {
        let shown = root.get(&format!("/projects/{}?statistics=true", project.id)).await.expect(200).json();
        shown["statistics"]["repository_size"].as_i64().expect("a number")
    };
    let update = format!("/projects/{}/repository_size", project.id);
    root.post(&update, json!({})).await.expect(201);
    let before = size().await;
    let directory = directory(&server, project.id).await;
    std::fs::write(directory.join("objects/pack/filler"), vec![0; 100_000]).expect("a file");
    root.post(&update, json!({})).await.expect(201);
    root.post(&update, json!("x".repeat(1 << 20))).await.expect(413);
    assert_eq!(size().await, before + 100_000);
}

async fn tasks_require_maintainer(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    server.finish_jobs().await;
    let path = format!("/projects/{}", project.id);
    for (name, level, status) in [("developer", 30, 403), ("maintainer", 40, 201)] {
        let user = server.create_user(name).await;
        join(&server.root(), &path, user.id, level).await;
        start(&user.client, project.id, "prune", status).await;
        user.client.post(&format!("{path}/repository_size"), json!({})).await.expect(status);
    }
    server.anonymous().post(&format!("{path}/repository_size"), json!({})).await.expect(401);
}

/// Unpacks a snapshot and returns its directory.
async fn unpacked(client: &Client, project: i64) -> Work {
    let response = client.get(&format!("/projects/{project}/snapshot")).await.expect(200);
    assert_eq!(response.header("content-type"), "application/x-tar");
    assert!(
        response.header("content-disposition").starts_with("attachment"),
        "{}",
        response.header("content-disposition")
    );
    let work = Work::empty();
    tar::Archive::new(&response.body[..]).unpack(&work.path).expect("an archive");
    work
}

async fn snapshot_is_a_repository_with_all_refs(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    project.git(&["update-ref", "refs/keep-around/x", "feature/x"]);
    let root = server.root();
    let work = unpacked(&root, project.id).await;
    assert_eq!(work.git(&["for-each-ref"]).await, project.git(&["for-each-ref"]));
    let mut names: Vec<_> =
        std::fs::read_dir(&work.path).expect("a directory").flatten().map(|e| e.file_name()).collect();
    names.sort_unstable();
    assert_eq!(names, ["HEAD", "config", "objects", "packed-refs", "refs"]);
    work.git(&["clone", "--quiet", ".", "copy"]).await;
    assert_eq!(work.below("copy").git(&["rev-parse", "HEAD"]).await, project.id("main"));
    work.git(&["fsck", "--strict", "--no-dangling"]).await;
}

async fn snapshots_of_forks_and_empty_repositories_are_complete(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    let root = server.root();
    let body = json!({ "path": "fork", "name": "Fork" });
    let fork = root.post(&format!("/projects/{}/fork", project.id), body).await.expect(201).json();
    server.finish_jobs().await;
    let fork = fork["id"].as_i64().expect("an ID");
    let body = json!({"branch": "main", "content": "x", "commit_message": "Add a file"});
    root.post(&format!("/projects/{fork}/repository/files/own"), body).await.expect(201);
    let work = unpacked(&root, fork).await;
    work.git(&["fsck", "--strict", "--no-dangling"]).await;
    work.git(&["clone", "--quiet", ".", "copy"]).await;
    assert!(work.path.join("copy/own").is_file() && work.path.join("copy/README.md").is_file());
    let empty = Project::empty(&server, "empty", Visibility::Public).await;
    unpacked(&root, empty.id).await.git(&["clone", "--quiet", ".", "copy"]).await;
}

async fn snapshots_during_pushes_have_all_objects(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    let root = server.root();
    let pushes = async {
        for number in 0..12 {
            let body = json!({"branch": "main", "content": "x", "commit_message": "Add a file"});
            root.post(&format!("/projects/{}/repository/files/file-{number}", project.id), body).await.expect(201);
        }
    };
    let snapshots = async {
        for _ in 0..4 {
            unpacked(&root, project.id).await.git(&["fsck", "--full", "--no-dangling"]).await;
        }
    };
    tokio::join!(pushes, snapshots);
}

async fn snapshots_require_an_administrator(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    let path = format!("/projects/{}/snapshot", project.id);
    let owner = server.create_user("owner").await;
    join(&server.root(), &format!("/projects/{}", project.id), owner.id, 40).await;
    owner.client.get(&path).await.expect(403);
    server.anonymous().get(&path).await.expect(401);
    server.root().get("/projects/999999/snapshot").await.expect(404);
}

on_every_database![
    snapshot_is_a_repository_with_all_refs,
    snapshots_of_forks_and_empty_repositories_are_complete,
    snapshots_during_pushes_have_all_objects,
    snapshots_require_an_administrator,
    storage_is_the_directory_of_the_repository,
    prune_writes_one_pack_and_keeps_recent_objects,
    scheduled_task_is_not_scheduled_twice,
    size_is_measured_on_request,
    tasks_require_maintainer,
];
