//! What hooks are told of issues.

use serde_json::{Value, json};

use super::{open, public_project};
use crate::support::receiver::Receiver;
use crate::support::{TestServer, on_every_database};

/// A hook of a project that is told of these kinds.
async fn hook(server: &TestServer, project: i64, url: &str, kinds: Value) {
    let mut body = json!({"url": url, "push_events": false});
    let Value::Object(kinds) = kinds else { panic!("an object") };
    body.as_object_mut().expect("an object").extend(kinds);
    server.root().post(&format!("/projects/{project}/hooks"), body).await.expect(201);
}

async fn hooks_are_told_what_became_of_an_issue(server: TestServer) {
    let root = server.root();
    let id = public_project(&server, "hooked").await;
    let ann = server.person("ann").await;
    let mut receiver = Receiver::start().await;
    hook(&server, id, &receiver.url, json!({"issues_events": true})).await;
    let iid = open(&root, id, json!({"title": "t", "labels": "bug", "assignee_ids": [ann.id]})).await;
    server.finish_jobs().await;
    let made = receiver.next().await;
    assert_eq!(made.header("x-service-event"), "Issue Hook");
    let body = &made.body;
    assert_eq!((&body["object_kind"], &body["event_type"]), (&json!("issue"), &json!("issue")));
    assert_eq!((&body["user"]["username"], &body["project"]["id"]), (&json!("root"), &json!(id)));
    assert_eq!((&body["changes"], &body["labels"][0]["title"]), (&json!({}), &json!("bug")));
    assert_eq!(body["assignees"][0]["username"], "ann");
    assert_eq!(body["repository"]["name"], "hooked");
    let about = &body["object_attributes"];
    assert_eq!((&about["iid"], &about["state"], &about["state_id"]), (&json!(iid), &json!("opened"), &json!(1)));
    assert_eq!((&about["action"], &about["title"]), (&json!("open"), &json!("t")));
    assert_eq!((&about["assignee_id"], &about["assignee_ids"]), (&json!(ann.id), &json!([ann.id])));
    assert_eq!(about["url"], format!("{}/of-hooked/hooked/-/issues/{iid}", server.base));
    assert!(about["created_at"].as_str().expect("a date").ends_with(" UTC"));
    let path = format!("/projects/{id}/issues/{iid}");
    for (change, action, field) in [
        (json!({"title": "new"}), "update", "title"),
        (json!({"labels": ""}), "update", "label_ids"),
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
    let shown = root.get(&format!("/projects/{id}/events?target_type=issue")).await.expect(200).pluck("action_name");
    assert_eq!(shown, [json!("reopened"), json!("closed"), json!("opened")]);
}

async fn confidential_issues_are_told_to_those_hooks_only(server: TestServer) {
    let root = server.root();
    let id = public_project(&server, "hooked").await;
    let (mut open_ones, mut confidential) = (Receiver::start().await, Receiver::start().await);
    hook(&server, id, &open_ones.url, json!({"issues_events": true})).await;
    hook(&server, id, &confidential.url, json!({"confidential_issues_events": true})).await;
    open(&root, id, json!({"title": "hush", "confidential": true})).await;
    open(&root, id, json!({"title": "open"})).await;
    server.finish_jobs().await;
    let told = confidential.next().await;
    assert_eq!(told.header("x-service-event"), "Confidential Issue Hook");
    assert_eq!(
        (&told.body["event_type"], &told.body["object_attributes"]["title"]),
        (&json!("confidential_issue"), &json!("hush"))
    );
    assert_eq!(open_ones.next().await.body["object_attributes"]["title"], "open");
}

async fn what_became_confidential_is_not_told_to_the_others_any_more(server: TestServer) {
    let root = server.root();
    let id = public_project(&server, "hushed").await;
    let mut receiver = Receiver::start().await;
    hook(&server, id, &receiver.url, json!({"issues_events": true, "note_events": true})).await;
    let hooks = format!("/projects/{id}/hooks");
    let log = format!("{hooks}/{}/events", root.get(&hooks).await.expect(200).json()[0]["id"]);
    let iid = open(&root, id, json!({"title": "open until now"})).await;
    let path = format!("/projects/{id}/issues/{iid}");
    root.post(&format!("{path}/notes"), json!({"body": "seen by all until now"})).await.expect(201);
    root.put(&path, json!({"confidential": true, "title": "hush"})).await.expect(200);
    let other = open(&root, id, json!({"title": "open"})).await;
    server.finish_jobs().await;
    let told = receiver.next().await.body;
    assert_eq!(told["object_attributes"]["iid"], other, "{told}");
    let kept = root.get(&log).await.expect(200).json();
    let withheld: Vec<&Value> =
        kept.as_array().expect("a list").iter().filter(|row| row["state"] == "failed").collect();
    assert_eq!(withheld.len(), 2, "{kept}");
    for row in withheld {
        assert_eq!((&row["error"], &row["attempts"]), (&json!("the resource is now confidential"), &json!(1)));
    }
    // What was told while all saw it is not told again.
    let told = kept.as_array().expect("a list").iter().find(|row| row["state"] == "delivered").expect("one");
    root.put(&format!("/projects/{id}/issues/{other}"), json!({"confidential": true})).await.expect(200);
    root.post(&format!("{log}/{}/resend", told["id"]), json!({})).await.expect(409);
}

on_every_database![
    hooks_are_told_what_became_of_an_issue,
    confidential_issues_are_told_to_those_hooks_only,
    what_became_confidential_is_not_told_to_the_others_any_more,
];
