//! Snapshots of test servers.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::git::{self, Work};
use crate::support::temporary_directory;
use crate::support::test_server::RunningTestServer;

/// Creates a project with a commit.
async fn create_project(server: &RunningTestServer, name: &str) -> Value {
    let body = json!({ "name": name, "initialize_with_readme": true });
    server.root().post("/projects", body).await.expect(201).json()
}

async fn names(server: &RunningTestServer) -> Vec<Value> {
    server.root().get("/projects?order_by=id&sort=asc").await.expect(200).pluck("name")
}

async fn snapshot_is_restored_by_resets_and_by_other_servers() {
    let directory = temporary_directory();
    let server = RunningTestServer::start(directory.path(), &[]).await;
    create_project(&server, "kept").await;
    let saved = directory.path().join("saved");
    let body = json!({ "directory": saved });
    let answer = server.control(Method::POST, "/snapshot", Some(body.clone())).await;
    assert_eq!(answer, (201, body.clone()));
    create_project(&server, "later").await;
    assert_eq!(names(&server).await, ["kept", "later"]);
    server.reset().await;
    assert_eq!(names(&server).await, ["kept"]);
    assert_eq!(server.control(Method::POST, "/snapshot", Some(body)).await.0, 409);
    let (file, password) = (saved.to_str().unwrap().to_owned(), server.text("password").to_owned());
    assert_eq!(server.close().await.code(), Some(0));
    let other = RunningTestServer::start(directory.path(), &["--snapshot", &file]).await;
    assert_eq!(names(&other).await, ["kept"]);
    assert_eq!(other.text("password"), password);
    let address = git::address(other.text("url"), "root", &password, "root/kept");
    let work = Work::empty();
    work.git(&["clone", "--quiet", &address, "c"]).await;
    let clone = work.below("c");
    clone.commit("a", "1").await;
    clone.git(&["push", "--quiet", &address, "HEAD:main"]).await;
    let commits = other.root().get("/projects/1/repository/commits").await.expect(200).pluck("id");
    assert_eq!(commits.len(), 2);
    other.reset().await;
    let commits = other.root().get("/projects/1/repository/commits").await.expect(200).pluck("id");
    assert_eq!(commits.len(), 1);
}

async fn snapshot_without_directory_is_the_state_of_later_resets() {
    let directory = temporary_directory();
    let server = RunningTestServer::start(directory.path(), &[]).await;
    for count in 1..=2 {
        create_project(&server, &format!("p{count}")).await;
        assert_eq!(server.control(Method::POST, "/snapshot", None).await.0, 201);
        create_project(&server, "later").await;
        server.reset().await;
        assert_eq!(names(&server).await.len(), count);
    }
    server.close().await;
}

async fn reset_to_another_snapshot_is_repeated_by_later_resets() {
    let directory = temporary_directory();
    let server = RunningTestServer::start(directory.path(), &[]).await;
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let frozen = |time: &str| (200, json!({ "time": time, "frozen": true }));
    for (name, time) in [("a", "2031-01-01T00:00:00.000Z"), ("b", "2032-01-01T00:00:00.000Z")] {
        create_project(&server, name).await;
        assert_eq!(server.control(Method::PUT, "/clock", Some(json!({ "time": time }))).await, frozen(time));
        let body = json!({ "directory": path(name) });
        assert_eq!(server.control(Method::POST, "/snapshot", Some(body)).await.0, 201);
    }
    server.control(Method::PUT, "/clock", Some(json!({ "time": null }))).await;
    let body = json!({ "directory": path("running") });
    assert_eq!(server.control(Method::POST, "/snapshot", Some(body)).await.0, 201);
    let reset = |snapshot: String| server.control(Method::POST, "/reset", Some(json!({ "snapshot": snapshot })));
    assert_eq!(reset(path("a")).await.0, 204);
    assert_eq!(names(&server).await, ["a"]);
    assert_eq!(server.control(Method::GET, "/clock", None).await, frozen("2031-01-01T00:00:00.000Z"));
    assert_eq!(reset(path("missing")).await.0, 400);
    create_project(&server, "c").await;
    server.control(Method::PUT, "/clock", Some(json!({ "time": null }))).await;
    server.reset().await;
    assert_eq!(names(&server).await, ["a"]);
    assert_eq!(server.control(Method::GET, "/clock", None).await, frozen("2031-01-01T00:00:00.000Z"));
    let saved = path("b");
    let arguments: [&str; 4] = ["--snapshot", &saved, "--freeze-time", "2033-01-01T00:00:00Z"];
    for (count, time) in [(2, "2032-01-01T00:00:00.000Z"), (4, "2033-01-01T00:00:00.000Z")] {
        let other = RunningTestServer::start(directory.path(), &arguments[..count]).await;
        assert_eq!(other.control(Method::GET, "/clock", None).await, frozen(time));
        other.reset().await;
        assert_eq!(other.control(Method::GET, "/clock", None).await, frozen(time));
        // The clock ran when this snapshot was saved. The option freezes the clock.
        let body = json!({ "snapshot": path("running") });
        assert_eq!(other.control(Method::POST, "/reset", Some(body)).await.0, 204);
        let (_, clock) = other.control(Method::GET, "/clock", None).await;
        let has_option = count == arguments.len();
        assert_eq!((&clock["frozen"], clock["time"] == time), (&json!(has_option), has_option), "{clock}");
    }
}

async fn failed_snapshot_has_no_effect() {
    let directory = temporary_directory();
    let server = RunningTestServer::start(directory.path(), &[]).await;
    create_project(&server, "p").await;
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    for (path, status) in [(file.clone(), 409), (file.join("below"), 400)] {
        let body = json!({ "directory": path });
        let (found, answer) = server.control(Method::POST, "/snapshot", Some(body)).await;
        assert_eq!(found, status, "{answer}");
        assert_eq!(names(&server).await, ["p"]);
    }
    create_project(&server, "q").await;
    server.reset().await;
    assert!(names(&server).await.is_empty());
}

async fn damaged_snapshot_is_refused_and_the_state_remains() {
    let directory = temporary_directory();
    let server = RunningTestServer::start(directory.path(), &[]).await;
    let saved = directory.path().join("saved");
    let body = json!({ "directory": saved });
    assert_eq!(server.control(Method::POST, "/snapshot", Some(body)).await.0, 201);
    std::fs::remove_file(saved.join("data/secret.key")).unwrap();
    let body = json!({ "snapshot": saved });
    let (status, answer) = server.control(Method::POST, "/reset", Some(body)).await;
    assert_eq!(status, 500, "{answer}");
    server.root().get("/user").await.expect(200);
}

async fn state_that_cannot_be_opened_after_a_snapshot_is_reset() {
    let directory = temporary_directory();
    let server = RunningTestServer::start(directory.path(), &[]).await;
    create_project(&server, "p").await;
    std::fs::remove_file(server.directory().join("data-1/secret.key")).unwrap();
    let (status, answer) = server.control(Method::POST, "/snapshot", None).await;
    assert_eq!(status, 500, "{answer}");
    assert!(answer["message"].as_str().unwrap().starts_with("the state cannot be opened again"), "{answer}");
    assert!(names(&server).await.is_empty());
}

harness::tests![
    snapshot_is_restored_by_resets_and_by_other_servers,
    snapshot_without_directory_is_the_state_of_later_resets,
    reset_to_another_snapshot_is_repeated_by_later_resets,
    failed_snapshot_has_no_effect,
    damaged_snapshot_is_refused_and_the_state_remains,
    state_that_cannot_be_opened_after_a_snapshot_is_reset,
];
