//! Webhook events and event lists of merge requests.

use serde_json::{Value, json};

use super::{propose, public_project};
use crate::support::webhook_receiver::Receiver;
use crate::support::{TestServer, on_every_database};

/// Creates a webhook of a project for one kind of events.
async fn hook(server: &TestServer, project: i64, url: &str, kind: &str) {
    let mut body = json!({"url": url, "push_events": false});
    body[kind] = Value::Bool(true);
    server.root().post(&format!("/projects/{project}/hooks"), body).await.expect(201);
}

async fn webhook_receives_merge_request_events_with_changes(server: TestServer) {
    let root = server.root();
    let project = public_project(&server, "hooked").await;
    let id = project.id;
    let ann = server.create_user("ann").await;
    let mut receiver = Receiver::start().await;
    hook(&server, id, &receiver.url, "merge_requests_events").await;
    let attributes = json!({"title": "WIP: t", "labels": "bug", "assignee_ids": [ann.id]});
    let iid = propose(&root, id, "feature/x", "main", attributes).await;
    server.finish_jobs().await;
    let first_delivery = receiver.next().await;
    assert_eq!(first_delivery.header("x-service-event"), "Merge Request Hook");
    let body = &first_delivery.body;
    assert_eq!((&body["object_kind"], &body["event_type"]), (&json!("merge_request"), &json!("merge_request")));
    assert_eq!((&body["user"]["username"], &body["project"]["id"]), (&json!("root"), &json!(id)));
    assert_eq!((&body["changes"], &body["labels"][0]["title"]), (&json!({}), &json!("bug")));
    assert_eq!((&body["assignees"][0]["username"], &body["repository"]["name"]), (&json!("ann"), &json!("hooked")));
    let object = &body["object_attributes"];
    assert_eq!((&object["iid"], &object["state"], &object["state_id"]), (&json!(iid), &json!("opened"), &json!(1)));
    assert_eq!((&object["action"], &object["work_in_progress"]), (&json!("open"), &json!(true)));
    assert_eq!((&object["source_branch"], &object["target_branch"]), (&json!("feature/x"), &json!("main")));
    assert_eq!((&object["source"]["id"], &object["target"]["id"]), (&json!(id), &json!(id)));
    assert_eq!(object["last_commit"]["id"], project.id("feature/x"));
    assert_eq!((&object["merge_status"], &object["assignee_id"]), (&json!("can_be_merged"), &json!(ann.id)));
    assert_eq!(object["url"], format!("{}/root/hooked/-/merge_requests/{iid}", server.base));
    assert!(object["created_at"].as_str().expect("a date").ends_with(" UTC"));
    assert!(object.get("oldrev").is_none());
    let path = format!("/projects/{id}/merge_requests/{iid}");
    for (change, action, field) in [
        (json!({"title": "new"}), "update", "title"),
        (json!({"labels": ""}), "update", "labels"),
        (json!({"reviewer_ids": [ann.id]}), "update", "reviewers"),
        (json!({"assignee_ids": []}), "update", "assignees"),
        (json!({"target_branch": "merged"}), "update", "target_branch"),
        (json!({"state_event": "close"}), "close", "state_id"),
        (json!({"state_event": "reopen"}), "reopen", "state_id"),
    ] {
        root.put(&path, change).await.expect(200);
        server.finish_jobs().await;
        let delivery = receiver.next().await.body;
        assert_eq!(delivery["object_attributes"]["action"], action);
        assert!(delivery["changes"][field]["previous"] != delivery["changes"][field]["current"], "{field}: {delivery}");
        if field == "reviewers" {
            assert_eq!(delivery["changes"][field]["current"][0]["username"], "ann");
        }
    }
    // Updates trigger webhooks but are not listed as events.
    let events = format!("/projects/{id}/events?target_type=merge_request");
    let returned = root.get(&events).await.expect(200).pluck("action_name");
    assert_eq!(returned, [json!("reopened"), json!("closed"), json!("opened")]);
    // If merge requests are visible only to members, their events are too.
    assert_eq!(
        server.anonymous().get(&events).await.expect(200).pluck("target_iid"),
        [json!(iid), json!(iid), json!(iid)]
    );
    root.put(&format!("/projects/{id}"), json!({"merge_requests_access_level": "private"})).await.expect(200);
    assert_eq!(server.anonymous().get(&events).await.expect(200).json(), json!([]));
}

async fn webhook_receives_note_events_of_merge_requests(server: TestServer) {
    let root = server.root();
    let project = public_project(&server, "hooked").await;
    let id = project.id;
    let mut receiver = Receiver::start().await;
    hook(&server, id, &receiver.url, "note_events").await;
    let iid = propose(&root, id, "feature/x", "main", json!({})).await;
    let note = json!({"body": "Why?"});
    let note = root.post(&format!("/projects/{id}/merge_requests/{iid}/notes"), note).await.expect(201).json();
    server.finish_jobs().await;
    let delivery = receiver.next().await.body;
    assert_eq!((&delivery["object_kind"], &delivery["event_type"]), (&json!("note"), &json!("note")));
    assert_eq!(
        (&delivery["merge_request"]["iid"], &delivery["object_attributes"]["noteable_type"]),
        (&json!(iid), &json!("MergeRequest"))
    );
    let url = format!("{}/root/hooked/-/merge_requests/{iid}#note_{}", server.base, note["id"]);
    assert_eq!(delivery["object_attributes"]["url"], url);
    assert!(delivery.get("issue").is_none() && delivery.get("commit").is_none());
}

async fn private_fork_is_sent_only_with_its_id(server: TestServer) {
    let project = public_project(&server, "hooked").await;
    let id = project.id;
    let ada = server.create_user("ada").await.client;
    let fork = ada.post(&format!("/projects/{id}/fork"), json!({"name": "Secret plan"})).await.expect(201).json();
    server.finish_jobs().await;
    let fork = &fork["id"];
    let mut receiver = Receiver::start().await;
    hook(&server, id, &receiver.url, "merge_requests_events").await;
    hook(&server, id, &receiver.url, "note_events").await;
    let check = json!({"name": "Check", "external_url": receiver.url});
    server.root().post(&format!("/projects/{id}/external_status_checks"), check).await.expect(201);
    let body = json!({"source_branch": "feature/x", "target_branch": "main", "title": "t", "target_project_id": id});
    let created = ada.post(&format!("/projects/{fork}/merge_requests"), body).await.expect(201).json();
    let path = format!("/projects/{id}/merge_requests/{}", created["iid"]);
    server.finish_jobs().await;
    // The webhook and the status check.
    for delivery in receiver.rest() {
        assert_eq!(delivery.body["object_attributes"]["source"]["name"], "Secret plan");
    }
    ada.put(&format!("/projects/{fork}"), json!({"visibility": "private"})).await.expect(200);
    // Members of a private project cannot see another private project either.
    let root = server.root();
    let mut deliveries = Vec::new();
    for (visibility, event) in [("public", "close"), ("private", "reopen")] {
        root.put(&format!("/projects/{id}"), json!({ "visibility": visibility })).await.expect(200);
        root.put(&path, json!({ "state_event": event })).await.expect(200);
        root.post(&format!("{path}/notes"), json!({ "body": "Why?" })).await.expect(201);
        server.finish_jobs().await;
        deliveries.extend(receiver.rest());
    }
    assert_eq!(deliveries.len(), 6);
    for delivery in deliveries {
        let about = match delivery.body["object_kind"] == "note" {
            true => &delivery.body["merge_request"],
            false => &delivery.body["object_attributes"],
        };
        let source = about["source"].as_object().expect("a project");
        assert_eq!((&source["id"], source.len()), (fork, about["target"].as_object().expect("a project").len()));
        let others = source.iter().filter(|(key, _)| *key != "id");
        let set: Vec<_> = others.filter(|(_, value)| ![json!(""), json!(0), Value::Null].contains(value)).collect();
        assert!(set.is_empty(), "{set:?}");
    }
}

on_every_database![
    webhook_receives_merge_request_events_with_changes,
    webhook_receives_note_events_of_merge_requests,
    private_fork_is_sent_only_with_its_id,
];
