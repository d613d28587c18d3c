//! Events and webhook deliveries of notes.

use serde_json::{Value, json};

use super::{issue, write};
use crate::planning::issues::open;
use crate::support::webhook_receiver::Receiver;
use crate::support::{TestServer, on_every_database};

/// Creates a webhook of a project for public or for confidential notes.
async fn hook(server: &TestServer, project: i64, url: &str, kind: &str) {
    let mut body = json!({"url": url, "push_events": false});
    body[kind] = json!(true);
    let hooks = format!("/projects/{project}/hooks");
    server.root().post(&hooks, body).await.expect(201);
}

async fn event_lists_include_notes_until_they_are_deleted(server: TestServer) {
    let (id, path) = issue(&server, "listed").await;
    let ann = server.create_user("ann").await;
    let note = write(&ann.client, &path, json!({"body": "Nice"})).await;
    let created = ann.client.get(&note).await.expect(200).json();
    for list in [
        format!("/projects/{id}/events?target_type=note"),
        format!("/users/{}/events?action=commented", ann.id),
        "/events?target_type=note".to_owned(),
    ] {
        let event = ann.client.get(&list).await.expect(200).json()[0].clone();
        assert_eq!((&event["action_name"], &event["target_type"]), (&json!("commented on"), &json!("Note")));
        assert_eq!((&event["target_title"], &event["target_id"]), (&json!("Talk"), &created["id"]));
        assert_eq!((&event["author_username"], &event["project_id"]), (&json!("ann"), &json!(id)));
        let summary = &event["note"];
        for field in ["id", "body", "created_at", "system", "noteable_id", "noteable_iid", "noteable_type"] {
            assert_eq!(summary[field], created[field], "{field}");
        }
        assert_eq!(summary["author"]["username"], "ann");
    }
    ann.client.post(&format!("{path}/notes"), json!({"body": ":tada:"})).await.expect(201);
    let events = format!("/projects/{id}/events?target_type=note");
    assert_eq!(ann.client.get(&events).await.expect(200).pluck("target_id"), [created["id"].clone()]);
    ann.client.delete(&note).await.expect(204);
    assert_eq!(ann.client.get(&events).await.expect(200).json(), json!([]));
}

async fn webhook_receives_note_events_with_their_noteable(server: TestServer) {
    let (id, path) = issue(&server, "hooked").await;
    let ann = server.create_user("ann").await;
    let mut receiver = Receiver::start().await;
    hook(&server, id, &receiver.url, "note_events").await;
    let note = write(&ann.client, &path, json!({"body": "See ![a](/uploads/1/a.png)"})).await;
    let created = ann.client.get(&note).await.expect(200).json();
    server.finish_jobs().await;
    let delivery = receiver.next().await;
    assert_eq!(delivery.header("x-service-event"), "Note Hook");
    let body = &delivery.body;
    assert_eq!((&body["object_kind"], &body["event_type"]), (&json!("note"), &json!("note")));
    assert_eq!((&body["user"]["username"], &body["project_id"]), (&json!("ann"), &json!(id)));
    assert_eq!(body["repository"]["name"], "hooked");
    assert!(body.get("commit").is_none(), "the payload has only one noteable");
    let attributes = &body["object_attributes"];
    assert_eq!((&attributes["id"], &attributes["note"]), (&created["id"], &created["body"]));
    assert_eq!((&attributes["noteable_id"], &attributes["noteable_type"]), (&created["noteable_id"], &json!("Issue")));
    assert_eq!((&attributes["author_id"], &attributes["system"]), (&json!(ann.id), &json!(false)));
    assert_eq!((&attributes["commit_id"], &attributes["st_diff"]), (&Value::Null, &Value::Null));
    let page = format!("{}/of-hooked/hooked", server.base);
    assert_eq!(attributes["url"], format!("{page}/-/issues/1#note_{}", created["id"]));
    assert_eq!(attributes["description"], format!("See ![a]({page}/uploads/1/a.png)"));
    let issue = &body["issue"];
    assert_eq!((&issue["id"], &issue["title"]), (&created["noteable_id"], &json!("Talk")));
    assert!(issue.get("action").is_none(), "the issue was not changed");
}

async fn confidential_notes_trigger_only_confidential_note_webhooks(server: TestServer) {
    let root = server.root();
    let (id, path) = issue(&server, "hushed").await;
    let (mut public_receiver, mut confidential_receiver) = (Receiver::start().await, Receiver::start().await);
    hook(&server, id, &public_receiver.url, "note_events").await;
    hook(&server, id, &confidential_receiver.url, "confidential_note_events").await;
    let hidden = open(&root, id, json!({"title": "secret", "confidential": true})).await;
    write(&root, &format!("/projects/{id}/issues/{hidden}"), json!({"body": "on it"})).await;
    server.finish_jobs().await;
    let delivery = confidential_receiver.next().await;
    assert_eq!(delivery.header("x-service-event"), "Confidential Note Hook");
    assert_eq!(
        (&delivery.body["event_type"], &delivery.body["object_attributes"]["note"]),
        (&json!("confidential_note"), &json!("on it"))
    );
    write(&root, &path, json!({"body": "secret", "confidential": true})).await;
    server.finish_jobs().await;
    assert_eq!(confidential_receiver.next().await.body["object_attributes"]["note"], "secret");
    write(&root, &path, json!({"body": "open"})).await;
    server.finish_jobs().await;
    assert_eq!(public_receiver.next().await.body["object_attributes"]["note"], "open");
}

on_every_database![
    event_lists_include_notes_until_they_are_deleted,
    webhook_receives_note_events_with_their_noteable,
    confidential_notes_trigger_only_confidential_note_webhooks,
];
