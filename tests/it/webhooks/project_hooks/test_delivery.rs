//! Test deliveries with issues, merge requests, pipelines and notes.

use serde_json::{Value, json};
use storage::entities::Visibility;

use super::hook;
use crate::discussion::notes::write;
use crate::planning::issues::open;
use crate::review::merge_requests::propose;
use crate::support::code::Project;
use crate::support::webhook_receiver::Receiver;
use crate::support::{TestServer, on_every_database};

async fn test_delivery_contains_newest_issue_of_its_confidentiality(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let mut receiver = Receiver::start().await;
    let root = server.root();
    let id = hook(&root, project.id, &receiver.url, json!({ "push_events": false })).await;
    let test = format!("/projects/{}/hooks/{id}/test", project.id);
    let rejected = async |trigger: &str| root.post(&format!("{test}/{trigger}"), json!({})).await.expect(422).message();
    assert_eq!(rejected("issues_events").await, "Ensure the project has issues.");
    open(&root, project.id, json!({"title": "secret", "confidential": true})).await;
    assert_eq!(rejected("issues_events").await, "Ensure the project has issues.");
    open(&root, project.id, json!({"title": "first"})).await;
    let iid = open(&root, project.id, json!({"title": "second", "labels": "bug"})).await;
    open(&root, project.id, json!({"title": "secret again", "confidential": true})).await;
    let delivery = root.post(&format!("{test}/issues_events"), json!({})).await.expect(201).json();
    assert_eq!((&delivery["state"], &delivery["trigger"]), (&json!("delivered"), &json!("issue_hooks")));
    let arrived = receiver.next().await;
    assert_eq!(arrived.header("x-service-event"), "Issue Hook");
    assert_eq!((&arrived.body["event_type"], &arrived.body["changes"]), (&json!("issue"), &json!({})));
    assert_eq!(
        (&arrived.body["user"]["username"], &arrived.body["labels"][0]["title"]),
        (&json!("root"), &json!("bug"))
    );
    let attributes = &arrived.body["object_attributes"];
    assert_eq!(
        (&attributes["title"], &attributes["iid"], &attributes["action"]),
        (&json!("second"), &json!(iid), &json!("open"))
    );
    let delivery = root.post(&format!("{test}/confidential_issues_events"), json!({})).await.expect(201).json();
    assert_eq!(delivery["trigger"], "confidential_issue_hooks");
    let arrived = receiver.next().await;
    assert_eq!(arrived.header("x-service-event"), "Confidential Issue Hook");
    assert_eq!(
        (&arrived.body["event_type"], &arrived.body["object_attributes"]["title"]),
        (&json!("confidential_issue"), &json!("secret again"))
    );
    // The action reflects the state of the issue. Issues of other projects are not used.
    root.put(&format!("/projects/{}/issues/{iid}", project.id), json!({"state_event": "close"})).await.expect(200);
    let other = Project::with_commits(&server, "q", Visibility::Private).await;
    open(&root, other.id, json!({"title": "elsewhere"})).await;
    root.post(&format!("{test}/issues_events"), json!({})).await.expect(201);
    let attributes = receiver.next().await.body["object_attributes"].clone();
    assert_eq!((&attributes["iid"], &attributes["action"]), (&json!(iid), &json!("close")));
}

async fn test_delivery_without_matching_data_returns_422(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let receiver = Receiver::start().await;
    let root = server.root();
    let id = hook(&root, project.id, &receiver.url, json!({})).await;
    let issue = open(&root, project.id, json!({"title": "open"})).await;
    write(&root, &format!("/projects/{}/issues/{issue}", project.id), json!({"body": "open"})).await;
    for (trigger, text) in [
        ("confidential_issues_events", "Ensure the project has confidential issues."),
        ("confidential_note_events", "Ensure the project has confidential notes."),
        ("merge_requests_events", "Ensure the project has merge requests."),
        ("pipeline_events", "Ensure the project has CI pipelines."),
        ("job_events", "Ensure the project has CI jobs."),
    ] {
        let test = format!("/projects/{}/hooks/{id}/test/{trigger}", project.id);
        assert_eq!(root.post(&test, json!({})).await.expect(422).message(), text);
    }
}

async fn test_delivery_contains_newest_merge_request(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let mut receiver = Receiver::start().await;
    let root = server.root();
    let id = hook(&root, project.id, &receiver.url, json!({ "push_events": false })).await;
    let test = format!("/projects/{}/hooks/{id}/test/merge_requests_events", project.id);
    let iid = propose(&root, project.id, "feature/x", "main", json!({"labels": "bug"})).await;
    let delivery = root.post(&test, json!({})).await.expect(201).json();
    assert_eq!((&delivery["state"], &delivery["trigger"]), (&json!("delivered"), &json!("merge_request_hooks")));
    let arrived = receiver.next().await;
    assert_eq!(arrived.header("x-service-event"), "Merge Request Hook");
    assert_eq!(
        (&arrived.body["object_kind"], &arrived.body["labels"][0]["title"]),
        (&json!("merge_request"), &json!("bug"))
    );
    let attributes = &arrived.body["object_attributes"];
    assert_eq!(
        (&attributes["iid"], &attributes["action"], &attributes["source_branch"]),
        (&json!(iid), &json!("open"), &json!("feature/x"))
    );
    assert_eq!(attributes["last_commit"]["id"], project.id("feature/x"));
    root.put(&format!("/projects/{}/merge_requests/{iid}/merge", project.id), json!({})).await.expect(200);
    root.post(&test, json!({})).await.expect(201);
    let attributes = receiver.next().await.body["object_attributes"].clone();
    assert_eq!((&attributes["state"], &attributes["action"]), (&json!("merged"), &json!("merge")));
}

async fn test_delivery_contains_newest_pipeline_and_job(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let mut receiver = Receiver::start().await;
    let root = server.root();
    let id = hook(&root, project.id, &receiver.url, json!({ "push_events": false })).await;
    let test = format!("/projects/{}/hooks/{id}/test", project.id);
    let report = format!("/projects/{}/statuses/{}", project.id, project.id("main"));
    for name in ["older", "newer"] {
        root.post(&report, json!({"state": "failed", "name": name})).await.expect(201);
    }
    let log_entry = root.post(&format!("{test}/pipeline_events"), json!({})).await.expect(201).json();
    assert_eq!((&log_entry["state"], &log_entry["trigger"]), (&json!("delivered"), &json!("pipeline_hooks")));
    let delivery = receiver.next().await;
    assert_eq!(delivery.header("x-service-event"), "Pipeline Hook");
    let attributes = &delivery.body["object_attributes"];
    assert_eq!(
        (&delivery.body["object_kind"], &attributes["status"], &attributes["ref"]),
        (&json!("pipeline"), &json!("failed"), &json!("main"))
    );
    assert_eq!(delivery.body["builds"].as_array().expect("a list").len(), 2);
    root.post(&format!("{test}/job_events"), json!({})).await.expect(201);
    let delivery = receiver.next().await;
    assert_eq!(delivery.header("x-service-event"), "Job Hook");
    assert_eq!((&delivery.body["build_name"], &delivery.body["build_status"]), (&json!("newer"), &json!("failed")));
}

async fn test_delivery_contains_newest_note_of_its_confidentiality(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let mut receiver = Receiver::start().await;
    let root = server.root();
    let id = hook(&root, project.id, &receiver.url, json!({ "push_events": false })).await;
    let test = format!("/projects/{}/hooks/{id}/test", project.id);
    let shown = open(&root, project.id, json!({"title": "shown"})).await;
    let hidden = open(&root, project.id, json!({"title": "secret", "confidential": true})).await;
    let (shown, hidden) =
        (format!("/projects/{}/issues/{shown}", project.id), format!("/projects/{}/issues/{hidden}", project.id));
    write(&root, &hidden, json!({"body": "on what is hidden"})).await;
    let rejected = root.post(&format!("{test}/note_events"), json!({})).await.expect(422);
    assert_eq!(rejected.message(), "Ensure the project has notes.");
    let send_test = async |trigger: &str, receiver: &mut Receiver| -> (Value, Value) {
        root.post(&format!("{test}/{trigger}"), json!({})).await.expect(201);
        let body = receiver.next().await.body;
        (body["event_type"].clone(), body["object_attributes"]["note"].clone())
    };
    let confidential = send_test("confidential_note_events", &mut receiver).await;
    assert_eq!(confidential, (json!("confidential_note"), json!("on what is hidden")));
    write(&root, &shown, json!({"body": "for all"})).await;
    write(&root, &shown, json!({"body": "for few", "confidential": true})).await;
    assert_eq!(send_test("note_events", &mut receiver).await, (json!("note"), json!("for all")));
    assert_eq!(
        send_test("confidential_note_events", &mut receiver).await,
        (json!("confidential_note"), json!("for few"))
    );
    let iid = propose(&root, project.id, "feature/x", "main", json!({})).await;
    let created =
        write(&root, &format!("/projects/{}/merge_requests/{iid}", project.id), json!({"body": "on a change"})).await;
    assert_eq!(send_test("note_events", &mut receiver).await.1, "on a change");
    let comments = project.url(&format!("/commits/{}/comments", project.id("main")));
    root.post(&comments, json!({"note": "on a commit"})).await.expect(201);
    assert_eq!(send_test("note_events", &mut receiver).await.1, "on a commit");
    // Deleted notes are not used, and notes on a confidential issue count as confidential.
    root.delete(&created).await.expect(204);
    root.put(&shown, json!({"confidential": true})).await.expect(200);
    assert_eq!(send_test("note_events", &mut receiver).await.1, "on a commit");
    write(&root, &shown, json!({"body": "late"})).await;
    assert_eq!(send_test("confidential_note_events", &mut receiver).await.1, "late");
}

on_every_database![
    test_delivery_contains_newest_issue_of_its_confidentiality,
    test_delivery_without_matching_data_returns_422,
    test_delivery_contains_newest_merge_request,
    test_delivery_contains_newest_pipeline_and_job,
    test_delivery_contains_newest_note_of_its_confidentiality,
];
