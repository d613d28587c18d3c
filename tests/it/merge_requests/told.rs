//! What hooks and lists of events are told of merge requests.

use serde_json::{Value, json};

use super::{propose, public_project};
use crate::support::receiver::Receiver;
use crate::support::{TestServer, on_every_database};

/// A hook of a project that is told of these kinds.
async fn hook(server: &TestServer, project: i64, url: &str, kind: &str) {
    let mut body = json!({"url": url, "push_events": false});
    body[kind] = Value::Bool(true);
    server.root().post(&format!("/projects/{project}/hooks"), body).await.expect(201);
}

async fn hooks_are_told_what_became_of_a_merge_request(server: TestServer) {
    let root = server.root();
    let project = public_project(&server, "hooked").await;
    let id = project.id;
    let ann = server.person("ann").await;
    let mut receiver = Receiver::start().await;
    hook(&server, id, &receiver.url, "merge_requests_events").await;
    let made = json!({"title": "WIP: t", "labels": "bug", "assignee_ids": [ann.id]});
    let iid = propose(&root, id, "feature/x", "main", made).await;
    server.finish_jobs().await;
    let made = receiver.next().await;
    assert_eq!(made.header("x-service-event"), "Merge Request Hook");
    let body = &made.body;
    assert_eq!((&body["object_kind"], &body["event_type"]), (&json!("merge_request"), &json!("merge_request")));
    assert_eq!((&body["user"]["username"], &body["project"]["id"]), (&json!("root"), &json!(id)));
    assert_eq!((&body["changes"], &body["labels"][0]["title"]), (&json!({}), &json!("bug")));
    assert_eq!((&body["assignees"][0]["username"], &body["repository"]["name"]), (&json!("ann"), &json!("hooked")));
    let about = &body["object_attributes"];
    assert_eq!((&about["iid"], &about["state"], &about["state_id"]), (&json!(iid), &json!("opened"), &json!(1)));
    assert_eq!((&about["action"], &about["work_in_progress"]), (&json!("open"), &json!(true)));
    assert_eq!((&about["source_branch"], &about["target_branch"]), (&json!("feature/x"), &json!("main")));
    assert_eq!((&about["source"]["id"], &about["target"]["id"]), (&json!(id), &json!(id)));
    assert_eq!(about["last_commit"]["id"], project.id("feature/x"));
    assert_eq!((&about["merge_status"], &about["assignee_id"]), (&json!("can_be_merged"), &json!(ann.id)));
    assert_eq!(about["url"], format!("{}/root/hooked/-/merge_requests/{iid}", server.base));
    assert!(about["created_at"].as_str().expect("a date").ends_with(" UTC"));
    assert!(about.get("oldrev").is_none());
    let path = format!("/projects/{id}/merge_requests/{iid}");
    for (change, action, field) in [
        (json!({"title": "new"}), "update", "title"),
        (json!({"labels": ""}), "update", "label_ids"),
        (json!({"target_branch": "merged"}), "update", "target_branch"),
        (json!({"state_event": "close"}), "close", "state_id"),
        (json!({"state_event": "reopen"}), "reopen", "state_id"),
    ] {
        root.put(&path, change).await.expect(200);
        server.finish_jobs().await;
        let told = receiver.next().await.body;
        assert_eq!(told["object_attributes"]["action"], action);
        assert!(told["changes"][field]["previous"] != told["changes"][field]["current"], "{field}: {told}");
    }
    // Edits are for hooks; lists of events do not show them.
    let events = format!("/projects/{id}/events?target_type=merge_request");
    let shown = root.get(&events).await.expect(200).pluck("action_name");
    assert_eq!(shown, [json!("reopened"), json!("closed"), json!("opened")]);
    // Where merge requests are for members, so is what happened to them.
    assert_eq!(
        server.anonymous().get(&events).await.expect(200).pluck("target_iid"),
        [json!(iid), json!(iid), json!(iid)]
    );
    root.put(&format!("/projects/{id}"), json!({"merge_requests_access_level": "private"})).await.expect(200);
    assert_eq!(server.anonymous().get(&events).await.expect(200).json(), json!([]));
}

async fn hooks_are_told_of_notes_on_merge_requests(server: TestServer) {
    let root = server.root();
    let project = public_project(&server, "hooked").await;
    let id = project.id;
    let mut receiver = Receiver::start().await;
    hook(&server, id, &receiver.url, "note_events").await;
    let iid = propose(&root, id, "feature/x", "main", json!({})).await;
    let note = json!({"body": "Why?"});
    let note = root.post(&format!("/projects/{id}/merge_requests/{iid}/notes"), note).await.expect(201).json();
    server.finish_jobs().await;
    let told = receiver.next().await.body;
    assert_eq!((&told["object_kind"], &told["event_type"]), (&json!("note"), &json!("note")));
    assert_eq!(
        (&told["merge_request"]["iid"], &told["object_attributes"]["noteable_type"]),
        (&json!(iid), &json!("MergeRequest"))
    );
    let url = format!("{}/root/hooked/-/merge_requests/{iid}#note_{}", server.base, note["id"]);
    assert_eq!(told["object_attributes"]["url"], url);
    assert!(told.get("issue").is_none() && told.get("commit").is_none());
}

on_every_database![hooks_are_told_what_became_of_a_merge_request, hooks_are_told_of_notes_on_merge_requests,];
