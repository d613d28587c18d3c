//! Tests with the binary that `HOLDFAST_BINARY` names.

use std::time::Duration;

use holdfast_test::{Error, TestServer};
use serde_json::{json, Value};

fn names(server: &TestServer) -> Vec<Value> {
    let response = server.request("GET", "/projects", None).expect("a response");
    let projects: Vec<Value> = response.json().expect("a list");
    projects.into_iter().map(|project| project["name"].clone()).collect()
}

fn create(server: &TestServer, name: &str) -> Value {
    let response = server.request("POST", "/projects", Some(&json!({ "name": name }))).expect("a response");
    assert_eq!(response.status, 201);
    response.json().expect("a project")
}

#[test]
fn reset_restores_start_and_snapshot() {
    let folder = tempfile::tempdir().expect("a directory");
    let saved = folder.path().join("saved");
    let server = TestServer::builder().freeze_time("2026-01-31T12:00:00Z").start().expect("a server");
    let created = create(&server, "p");
    server.reset().expect("a reset");
    assert_eq!(names(&server), Vec::<Value>::new());
    let again = create(&server, "p");
    assert_eq!((&again["id"], &again["created_at"]), (&created["id"], &created["created_at"]));
    assert_eq!(server.snapshot_to(&saved).expect("a snapshot"), saved);
    create(&server, "q");
    server.reset().expect("a reset");
    assert_eq!(names(&server), ["p"]);
    let directory = server.directory().to_owned();
    assert!(directory.exists());
    server.stop();
    assert!(!directory.exists());
    let other = TestServer::builder().snapshot(&saved).start().expect("a server");
    assert_eq!(names(&other), ["p"]);
    other.snapshot().expect("a snapshot");
    other.reset_to(&saved).expect("a reset");
    assert!(matches!(other.reset_to(folder.path()), Err(Error::Refused(_))));
}

#[test]
fn faults_and_clock_are_changed() {
    let server = TestServer::builder().fault("GET /user 503 x1").start().expect("a server");
    let failed = server.request("GET", "/user", None).expect("a response");
    assert_eq!((failed.status, failed.header("Retry-After")), (503, Some("1")));
    assert_eq!(server.request("GET", "/user", None).expect("a response").status, 200);
    assert_eq!(server.request("HEAD", "/user", None).expect("a response").status, 200);
    let fault = server.add_fault("GET /user close").expect("a fault");
    assert!(matches!(server.request("GET", "/user", None), Err(Error::Io(_))));
    assert_eq!(server.faults().expect("faults")[1].injected, 1);
    server.remove_fault(fault.id).expect("removal");
    server.clear_faults().expect("removal");
    assert!(server.add_fault("GET").is_err_and(|error| error.to_string().contains("the path is missing")));
    assert!(server.advance(Duration::from_secs(1)).is_err());
    server.freeze("2026-01-31T12:00:00Z").expect("a clock");
    let clock = server.advance(Duration::from_secs(3_600)).expect("a clock");
    assert_eq!((clock.time.as_str(), clock.frozen), ("2026-01-31T13:00:00.000Z", true));
    assert!(!server.unfreeze().expect("a clock").frozen);
    assert!(!server.clock().expect("a clock").frozen);
}

#[test]
fn errors_of_the_start_contain_the_cause() {
    let error = TestServer::builder().fault("GET").start().expect_err("an error").to_string();
    assert!(error.contains("the path is missing"), "{error}");
    let error = TestServer::builder().binary("/nothing").start().expect_err("an error").to_string();
    assert!(error.contains("HOLDFAST_BINARY"), "{error}");
}
