//! The frozen clock of test servers.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::test_server::RunningTestServer;
use crate::support::{Client, temporary_directory};

const TIME: &str = "2001-02-03T04:05:06Z";

/// Creates resources of several kinds, and returns their responses without values that are random.
async fn create_resources(server: &RunningTestServer) -> Vec<Value> {
    let root = server.root();
    let mut found = Vec::new();
    let mut add = |mut value: Value| {
        if let Some(attributes) = value.as_object_mut() {
            attributes.retain(|name, _| !name.contains("token"));
        }
        found.push(value);
    };
    let body = json!({ "name": "p", "initialize_with_readme": true });
    add(root.post("/projects", body).await.expect(201).json());
    let action = json!({ "action": "create", "file_path": "a", "content": "1" });
    let commit = json!({ "branch": "b", "start_branch": "main", "commit_message": "a", "actions": [action] });
    add(root.post("/projects/1/repository/commits", commit).await.expect(201).json());
    let tag = json!({ "tag_name": "v1", "ref": "main", "message": "first" });
    add(root.post("/projects/1/repository/tags", tag).await.expect(201).json());
    add(root.post("/projects/1/issues", json!({ "title": "i" })).await.expect(201).json());
    let request = json!({ "title": "m", "source_branch": "b", "target_branch": "main" });
    add(root.post("/projects/1/merge_requests", request).await.expect(201).json());
    let body = json!({ "merge_commit_message": "merge" });
    add(root.put("/projects/1/merge_requests/1/merge", body).await.expect(200).json());
    add(root.get("/projects/1/repository/commits").await.expect(200).json());
    add(root.get("/projects/1/events").await.expect(200).json());
    found
}

async fn frozen_time_repeats_all_results_after_reset() {
    let directory = temporary_directory();
    let server = RunningTestServer::start(directory.path(), &["--freeze-time", TIME]).await;
    let first = create_resources(&server).await;
    assert_eq!(first[0]["created_at"], "2001-02-03T04:05:06.000Z");
    assert_eq!(first[1]["committed_date"], "2001-02-03T04:05:06.000Z");
    assert_eq!(first[5]["merged_at"], "2001-02-03T04:05:06.000Z");
    server.reset().await;
    let second = create_resources(&server).await;
    let text = |found: &[Value]| serde_json::to_string_pretty(found).unwrap();
    assert_eq!(text(&first), text(&second));
    let other = RunningTestServer::start(directory.path(), &["--freeze-time", TIME]).await;
    let third = text(&create_resources(&other).await).replace(other.text("url"), server.text("url"));
    assert_eq!(text(&first), third);
}

async fn clock_is_set_advanced_and_reset() {
    let directory = temporary_directory();
    let server = RunningTestServer::start(directory.path(), &["--freeze-time", TIME]).await;
    let clock = |time: &str| (200, json!({ "time": time, "frozen": true }));
    assert_eq!(server.control(Method::GET, "/clock", None).await, clock("2001-02-03T04:05:06.000Z"));
    let advanced = server.control(Method::POST, "/clock/advance", Some(json!({ "seconds": 3_600 }))).await;
    assert_eq!(advanced, clock("2001-02-03T05:05:06.000Z"));
    let issue = server.root().post("/projects", json!({ "name": "p" })).await.expect(201).json();
    assert_eq!(issue["created_at"], "2001-02-03T05:05:06.000Z");
    let set = server.control(Method::PUT, "/clock", Some(json!({ "time": "2031-01-01T00:00:00.5+01:00" }))).await;
    assert_eq!(set, clock("2030-12-31T23:00:00.500Z"));
    server.root().get("/user").await.expect(200);
    let (status, running) = server.control(Method::PUT, "/clock", Some(json!({ "time": null }))).await;
    assert_eq!((status, &running["frozen"]), (200, &json!(false)));
    server.reset().await;
    assert_eq!(server.control(Method::GET, "/clock", None).await, clock("2001-02-03T04:05:06.000Z"));
}

async fn credentials_expire_when_the_clock_is_advanced() {
    let directory = temporary_directory();
    let server = RunningTestServer::start(directory.path(), &["--freeze-time", TIME]).await;
    let root = server.root();
    let token = json!({ "name": "t", "scopes": ["api"], "expires_at": "2001-02-05" });
    let token = root.post("/users/1/impersonation_tokens", token).await.expect(201).json();
    let client = Client::new(server.text("url"), token["token"].as_str());
    client.get("/user").await.expect(200);
    server.control(Method::POST, "/clock/advance", Some(json!({ "seconds": 2 * 24 * 3_600 }))).await;
    client.get("/user").await.expect(200);
    server.control(Method::POST, "/clock/advance", Some(json!({ "seconds": 24 * 3_600 }))).await;
    client.get("/user").await.expect(401);
}

/// Waits until a background job has deleted a resource.
async fn wait_for_deletion(root: &Client, path: &str) {
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    while root.get(path).await.status != 404 {
        assert!(std::time::Instant::now() < deadline, "{path}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn background_jobs_run_while_the_clock_is_frozen() {
    let directory = temporary_directory();
    let server = RunningTestServer::start(directory.path(), &["--freeze-time", TIME]).await;
    let root = server.root();
    root.post("/projects", json!({ "name": "p", "initialize_with_readme": true })).await.expect(201);
    root.post(
        "/users",
        json!({ "username": "ada", "name": "Ada", "email": "ada@localhost", "password": "long enough 1" }),
    )
    .await
    .expect(201);
    root.delete("/users/2").await.expect(204);
    wait_for_deletion(&root, "/users/2").await;
}

async fn advanced_clock_runs_no_jobs_of_the_next_state() {
    let directory = temporary_directory();
    let server = RunningTestServer::start(directory.path(), &["--freeze-time", TIME]).await;
    let root = server.root();
    root.put("/application/settings", json!({ "deletion_adjourned_period": 7 })).await.expect(200);
    root.post("/projects", json!({ "name": "p" })).await.expect(201);
    root.delete("/projects/1").await.expect(202);
    assert_eq!(server.control(Method::POST, "/snapshot", None).await.0, 201);
    server.reset().await;
    server.control(Method::POST, "/clock/advance", Some(json!({ "seconds": 30 * 24 * 3_600 }))).await;
    wait_for_deletion(&root, "/projects/1").await;
    // Longer than the interval at which a runner looks for due jobs.
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    server.reset().await;
    let project = root.get("/projects/1").await.expect(200).json();
    assert_eq!(project["marked_for_deletion_on"], "2001-02-03");
}

harness::tests![
    frozen_time_repeats_all_results_after_reset,
    clock_is_set_advanced_and_reset,
    credentials_expire_when_the_clock_is_advanced,
    background_jobs_run_while_the_clock_is_frozen,
    advanced_clock_runs_no_jobs_of_the_next_state,
];
