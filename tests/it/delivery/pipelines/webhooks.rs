//! Webhook events of pipelines and jobs.

use sea_orm::EntityTrait;
use serde_json::{Value, json};
use storage::entities::{Visibility, events};

use crate::delivery::commit_statuses::report;
use crate::support::code::Project;
use crate::support::spaces::{group, project};
use crate::support::webhook_receiver::Receiver;
use crate::support::{TestServer, on_every_database};

async fn webhook_receives_pipeline_events_without_variable_values(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "watched", Visibility::Private).await;
    let project_path = format!("/projects/{}", project.id);
    let mut receiver = Receiver::start().await;
    let hook = json!({ "url": receiver.url, "push_events": false, "pipeline_events": true });
    root.post(&format!("{project_path}/hooks"), hook).await.expect(201);
    let body = json!({ "ref": "main", "variables": [{ "key": "PASSWORD", "value": "very-secret" }] });
    let created = root.post(&format!("{project_path}/pipeline"), body).await.expect(201).json();
    server.finish_jobs().await;
    let delivery = receiver.next().await;
    assert_eq!(delivery.header("x-service-event"), "Pipeline Hook");
    assert!(!delivery.body.to_string().contains("very-secret"));
    let sha = project.id("main");
    let attributes = &delivery.body["object_attributes"];
    assert_eq!(
        (&delivery.body["object_kind"], &attributes["id"], &attributes["status"]),
        (&json!("pipeline"), &created["id"], &json!("pending"))
    );
    assert_eq!(
        (&attributes["ref"], &attributes["tag"], &attributes["sha"], &attributes["source"]),
        (&json!("main"), &json!(false), &json!(sha), &json!("api"))
    );
    assert_eq!(
        (&attributes["finished_at"], &attributes["duration"], &attributes["variables"]),
        (&Value::Null, &Value::Null, &json!([]))
    );
    assert_eq!(
        (&delivery.body["user"]["username"], &delivery.body["project"]["id"]),
        (&json!("root"), &json!(project.id))
    );
    assert_eq!((&delivery.body["commit"]["id"], &delivery.body["builds"]), (&json!(sha), &json!([])));
    // Each delivery contains the status at the time of the event.
    for state in ["running", "success"] {
        report(&root, project.id, &sha, json!({ "state": state, "ref": "main", "name": "build" })).await;
    }
    server.finish_jobs().await;
    for state in ["running", "success"] {
        let delivery = receiver.next().await.body;
        let attributes = &delivery["object_attributes"];
        assert_eq!((&attributes["status"], &attributes["stages"]), (&json!(state), &json!(["external"])));
        assert_eq!(
            (&delivery["builds"][0]["name"], &delivery["builds"][0]["status"]),
            (&json!("build"), &json!(state))
        );
        assert_eq!(attributes["finished_at"].is_string(), state == "success");
    }
    // A report that changes nothing triggers no webhook.
    report(&root, project.id, &sha, json!({ "state": "failed", "ref": "feature/x", "name": "x" })).await;
    report(&root, project.id, &sha, json!({ "state": "failed", "ref": "feature/x", "name": "x" })).await;
    server.finish_jobs().await;
    let rest = receiver.rest();
    let statuses: Vec<&Value> = rest.iter().map(|delivery| &delivery.body["object_attributes"]["status"]).collect();
    assert_eq!(statuses, ["pending", "failed"]);
}

async fn webhook_receives_job_events(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "jobs", Visibility::Private).await;
    let mut receiver = Receiver::start().await;
    let hook = json!({ "url": receiver.url, "push_events": false, "job_events": true });
    root.post(&format!("/projects/{}/hooks", project.id), hook).await.expect(201);
    let sha = project.id("main");
    let first = report(&root, project.id, &sha, json!({ "state": "running", "ref": "main", "name": "build" })).await;
    report(&root, project.id, &sha, json!({ "state": "failed", "ref": "main", "name": "build" })).await;
    server.finish_jobs().await;
    let delivery = receiver.next().await;
    assert_eq!(delivery.header("x-service-event"), "Job Hook");
    let body = &delivery.body;
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
    let delivery = receiver.next().await.body;
    assert_eq!(
        (&delivery["build_status"], &delivery["build_failure_reason"]),
        (&json!("failed"), &json!("unknown_failure"))
    );
    assert!(delivery["build_duration"].as_f64().is_some_and(|seconds| seconds >= 0.0));
}

async fn job_event_contains_names_of_all_parent_groups(server: TestServer) {
    let root = server.root();
    let outer = group(&root, "outer", json!({ "name": "Outer" })).await;
    let inner = group(&root, "inner", json!({ "parent_id": outer })).await;
    let nested = json!({ "namespace_id": inner, "initialize_with_readme": true });
    let nested = project(&root, "nested", nested).await;
    let commit = root.get(&format!("/projects/{nested}/repository/commits/main")).await.expect(200).json();
    let sha = commit["id"].as_str().expect("an id");
    let mut receiver = Receiver::start().await;
    let hook = json!({ "url": receiver.url, "push_events": false, "job_events": true });
    root.post(&format!("/projects/{nested}/hooks"), hook).await.expect(201);
    report(&root, nested, sha, json!({ "state": "running", "ref": "main", "name": "build" })).await;
    server.finish_jobs().await;
    assert_eq!(receiver.next().await.body["project_name"], "Outer / inner / nested");
}

async fn pipeline_events_are_recorded_only_for_webhooks_and_never_listed(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "quiet", Visibility::Private).await;
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
    webhook_receives_pipeline_events_without_variable_values,
    webhook_receives_job_events,
    job_event_contains_names_of_all_parent_groups,
    pipeline_events_are_recorded_only_for_webhooks_and_never_listed,
];
