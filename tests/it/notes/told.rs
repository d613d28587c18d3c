//! What events and hooks tell of notes.

use serde_json::{Value, json};

use super::{issue, write};
use crate::issues::open;
use crate::support::receiver::Receiver;
use crate::support::{TestServer, on_every_database};

/// A hook of a project that is told of notes only: of those that all may see, or of the others.
async fn hook(server: &TestServer, project: i64, url: &str, kind: &str) {
    let mut body = json!({"url": url, "push_events": false});
    body[kind] = json!(true);
    let hooks = format!("/projects/{project}/hooks");
    server.root().post(&hooks, body).await.expect(201);
}

async fn events_tell_of_notes_until_these_are_gone(server: TestServer) {
    let (id, path) = issue(&server, "listed").await;
    let ann = server.person("ann").await;
    let note = write(&ann.client, &path, json!({"body": "Nice"})).await;
    let made = ann.client.get(&note).await.expect(200).json();
    for list in [
        format!("/projects/{id}/events?target_type=note"),
        format!("/users/{}/events?action=commented", ann.id),
        "/events?target_type=note".to_owned(),
    ] {
        let event = ann.client.get(&list).await.expect(200).json()[0].clone();
        assert_eq!((&event["action_name"], &event["target_type"]), (&json!("commented on"), &json!("Note")));
        assert_eq!((&event["target_title"], &event["target_id"]), (&json!("Talk"), &made["id"]));
        assert_eq!((&event["author_username"], &event["project_id"]), (&json!("ann"), &json!(id)));
        let told = &event["note"];
        for field in ["id", "body", "created_at", "system", "noteable_id", "noteable_iid", "noteable_type"] {
            assert_eq!(told[field], made[field], "{field}");
        }
        assert_eq!(told["author"]["username"], "ann");
    }
    ann.client.post(&format!("{path}/notes"), json!({"body": ":tada:"})).await.expect(201);
    let events = format!("/projects/{id}/events?target_type=note");
    assert_eq!(ann.client.get(&events).await.expect(200).pluck("target_id"), [made["id"].clone()]);
    ann.client.delete(&note).await.expect(204);
    assert_eq!(ann.client.get(&events).await.expect(200).json(), json!([]));
}

async fn hooks_are_told_of_notes_and_of_what_they_stand_on(server: TestServer) {
    let (id, path) = issue(&server, "hooked").await;
    let ann = server.person("ann").await;
    let mut receiver = Receiver::start().await;
    hook(&server, id, &receiver.url, "note_events").await;
    let note = write(&ann.client, &path, json!({"body": "See ![a](/uploads/1/a.png)"})).await;
    let made = ann.client.get(&note).await.expect(200).json();
    server.finish_jobs().await;
    let told = receiver.next().await;
    assert_eq!(told.header("x-service-event"), "Note Hook");
    let body = &told.body;
    assert_eq!((&body["object_kind"], &body["event_type"]), (&json!("note"), &json!("note")));
    assert_eq!((&body["user"]["username"], &body["project_id"]), (&json!("ann"), &json!(id)));
    assert_eq!(body["repository"]["name"], "hooked");
    assert!(body.get("commit").is_none(), "it is on one thing");
    let about = &body["object_attributes"];
    assert_eq!((&about["id"], &about["note"]), (&made["id"], &made["body"]));
    assert_eq!((&about["noteable_id"], &about["noteable_type"]), (&made["noteable_id"], &json!("Issue")));
    assert_eq!((&about["author_id"], &about["system"]), (&json!(ann.id), &json!(false)));
    assert_eq!((&about["commit_id"], &about["st_diff"]), (&Value::Null, &Value::Null));
    let page = format!("{}/of-hooked/hooked", server.base);
    assert_eq!(about["url"], format!("{page}/-/issues/1#note_{}", made["id"]));
    assert_eq!(about["description"], format!("See ![a]({page}/uploads/1/a.png)"));
    let issue = &body["issue"];
    assert_eq!((&issue["id"], &issue["title"]), (&made["noteable_id"], &json!("Talk")));
    assert!(issue.get("action").is_none(), "nothing was done to it");
}

async fn what_is_confidential_is_told_to_those_hooks_only(server: TestServer) {
    let root = server.root();
    let (id, path) = issue(&server, "hushed").await;
    let (mut open_ones, mut confidential) = (Receiver::start().await, Receiver::start().await);
    hook(&server, id, &open_ones.url, "note_events").await;
    hook(&server, id, &confidential.url, "confidential_note_events").await;
    let hidden = open(&root, id, json!({"title": "hush", "confidential": true})).await;
    write(&root, &format!("/projects/{id}/issues/{hidden}"), json!({"body": "on it"})).await;
    server.finish_jobs().await;
    let told = confidential.next().await;
    assert_eq!(told.header("x-service-event"), "Confidential Note Hook");
    assert_eq!(
        (&told.body["event_type"], &told.body["object_attributes"]["note"]),
        (&json!("confidential_note"), &json!("on it"))
    );
    write(&root, &path, json!({"body": "hush", "confidential": true})).await;
    server.finish_jobs().await;
    assert_eq!(confidential.next().await.body["object_attributes"]["note"], "hush");
    write(&root, &path, json!({"body": "open"})).await;
    server.finish_jobs().await;
    assert_eq!(open_ones.next().await.body["object_attributes"]["note"], "open");
}

on_every_database![
    events_tell_of_notes_until_these_are_gone,
    hooks_are_told_of_notes_and_of_what_they_stand_on,
    what_is_confidential_is_told_to_those_hooks_only,
];
