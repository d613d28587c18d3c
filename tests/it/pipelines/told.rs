//! What hooks are told of pipelines and jobs.

use sea_orm::EntityTrait;
use serde_json::{Value, json};
use storage::entities::{Visibility, events};

use crate::commit_statuses::report;
use crate::support::code::Project;
use crate::support::receiver::Receiver;
use crate::support::{TestServer, on_every_database};

async fn hooks_are_told_of_pipelines_and_jobs_and_of_no_values(server: TestServer) {
    let root = server.root();
    let project = Project::filled(&server, "told", Visibility::Private).await;
    let place = format!("/projects/{}", project.id);
    let mut receiver = Receiver::start().await;
    let hook = json!({ "url": receiver.url, "push_events": false, "pipeline_events": true });
    root.post(&format!("{place}/hooks"), hook).await.expect(201);
    let body = json!({ "ref": "main", "variables": [{ "key": "PASSWORD", "value": "very-secret" }] });
    let made = root.post(&format!("{place}/pipeline"), body).await.expect(201).json();
    server.finish_jobs().await;
    let told = receiver.next().await;
    assert_eq!(told.header("x-service-event"), "Pipeline Hook");
    assert!(!told.body.to_string().contains("very-secret"));
    let sha = project.id("main");
    let about = &told.body["object_attributes"];
    assert_eq!(
        (&told.body["object_kind"], &about["id"], &about["status"]),
        (&json!("pipeline"), &made["id"], &json!("pending"))
    );
    assert_eq!(
        (&about["ref"], &about["tag"], &about["sha"], &about["source"]),
        (&json!("main"), &json!(false), &json!(sha), &json!("api"))
    );
    assert_eq!(
        (&about["finished_at"], &about["duration"], &about["variables"]),
        (&Value::Null, &Value::Null, &json!([]))
    );
    assert_eq!((&told.body["user"]["username"], &told.body["project"]["id"]), (&json!("root"), &json!(project.id)));
    assert_eq!((&told.body["commit"]["id"], &told.body["builds"]), (&json!(sha), &json!([])));
    // Each status is told as it was, whenever that is sent.
    for state in ["running", "success"] {
        report(&root, project.id, &sha, json!({ "state": state, "ref": "main", "name": "build" })).await;
    }
    server.finish_jobs().await;
    for state in ["running", "success"] {
        let told = receiver.next().await.body;
        let about = &told["object_attributes"];
        assert_eq!((&about["status"], &about["stages"]), (&json!(state), &json!(["external"])));
        assert_eq!((&told["builds"][0]["name"], &told["builds"][0]["status"]), (&json!("build"), &json!(state)));
        assert_eq!(about["finished_at"].is_string(), state == "success");
    }
    // What changes nothing is not told.
    report(&root, project.id, &sha, json!({ "state": "failed", "ref": "feature/x", "name": "x" })).await;
    report(&root, project.id, &sha, json!({ "state": "failed", "ref": "feature/x", "name": "x" })).await;
    server.finish_jobs().await;
    let rest = receiver.rest();
    let statuses: Vec<&Value> = rest.iter().map(|told| &told.body["object_attributes"]["status"]).collect();
    assert_eq!(statuses, ["pending", "failed"]);
}

async fn hooks_are_told_of_jobs(server: TestServer) {
    let root = server.root();
    let project = Project::filled(&server, "jobs", Visibility::Private).await;
    let mut receiver = Receiver::start().await;
    let hook = json!({ "url": receiver.url, "push_events": false, "job_events": true });
    root.post(&format!("/projects/{}/hooks", project.id), hook).await.expect(201);
    let sha = project.id("main");
    let first = report(&root, project.id, &sha, json!({ "state": "running", "ref": "main", "name": "build" })).await;
    report(&root, project.id, &sha, json!({ "state": "failed", "ref": "main", "name": "build" })).await;
    server.finish_jobs().await;
    let told = receiver.next().await;
    assert_eq!(told.header("x-service-event"), "Job Hook");
    let body = &told.body;
    assert_eq!(
        (&body["object_kind"], &body["build_id"], &body["build_status"]),
        (&json!("build"), &first["id"], &json!("running"))
    );
    assert_eq!(
        (&body["build_name"], &body["build_stage"], &body["ref"]),
        (&json!("build"), &json!("external"), &json!("main"))
    );
    assert_eq!(
        (&body["sha"], &body["pipeline_id"], &body["project_id"]),
        (&json!(sha), &first["pipeline_id"], &json!(project.id))
    );
    assert_eq!((&body["user"]["username"], &body["commit"]["sha"]), (&json!("root"), &json!(sha)));
    let told = receiver.next().await.body;
    assert_eq!((&told["build_status"], &told["build_failure_reason"]), (&json!("failed"), &json!("unknown_failure")));
    assert!(told["build_duration"].as_f64().is_some_and(|seconds| seconds >= 0.0));
}

async fn what_nobody_wants_to_know_is_not_recorded_and_nothing_is_listed(server: TestServer) {
    let root = server.root();
    let project = Project::filled(&server, "quiet", Visibility::Private).await;
    let sha = project.id("main");
    report(&root, project.id, &sha, json!({ "state": "running", "ref": "main" })).await;
    let recorded = async || events::Entity::find().all(server.backend.database.read()).await.expect("events").len();
    assert_eq!(recorded().await, 0);
    let hook =
        json!({ "url": "http://127.0.0.1:1/", "push_events": false, "job_events": true, "pipeline_events": true });
    root.post(&format!("/projects/{}/hooks", project.id), hook).await.expect(201);
    report(&root, project.id, &sha, json!({ "state": "success", "ref": "main" })).await;
    assert_eq!(recorded().await, 2);
    assert_eq!(root.get(&format!("/projects/{}/events", project.id)).await.expect(200).json(), json!([]));
    assert_eq!(root.get("/events").await.expect(200).json(), json!([]));
}

on_every_database![
    hooks_are_told_of_pipelines_and_jobs_and_of_no_values,
    hooks_are_told_of_jobs,
    what_nobody_wants_to_know_is_not_recorded_and_nothing_is_listed,
];
