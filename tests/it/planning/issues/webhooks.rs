//! Webhook events of issues.

use sea_orm::EntityTrait;
use sea_orm::sea_query::Expr;
use serde_json::{Value, json};
use storage::entities::{hook_deliveries, now};

use super::{open, public_project};
use crate::support::spaces::project;
use crate::support::webhook_receiver::{Receiver, unused_address};
use crate::support::{TestServer, on_every_database};

/// Creates a webhook of a project for the given kinds of events.
async fn hook(server: &TestServer, project: i64, url: &str, kinds: Value) {
    let mut body = json!({"url": url, "push_events": false});
    let Value::Object(kinds) = kinds else { panic!("an object") };
    body.as_object_mut().expect("an object").extend(kinds);
    server.root().post(&format!("/projects/{project}/hooks"), body).await.expect(201);
}

async fn webhook_receives_issue_events_with_changes(server: TestServer) {
    let root = server.root();
    let id = public_project(&server, "hooked").await;
    let ann = server.create_user("ann").await;
    let mut receiver = Receiver::start().await;
    hook(&server, id, &receiver.url, json!({"issues_events": true})).await;
    let iid = open(&root, id, json!({"title": "t", "labels": "bug", "assignee_ids": [ann.id]})).await;
    server.finish_jobs().await;
    let first_delivery = receiver.next().await;
    assert_eq!(first_delivery.header("x-service-event"), "Issue Hook");
    let body = &first_delivery.body;
    assert_eq!((&body["object_kind"], &body["event_type"]), (&json!("issue"), &json!("issue")));
    assert_eq!((&body["user"]["username"], &body["project"]["id"]), (&json!("root"), &json!(id)));
    assert_eq!((&body["changes"], &body["labels"][0]["title"]), (&json!({}), &json!("bug")));
    assert_eq!((&body["labels"][0]["type"], &body["labels"][0]["template"]), (&json!("ProjectLabel"), &json!(false)));
    assert_eq!(body["assignees"][0]["username"], "ann");
    assert_eq!(body["repository"]["name"], "hooked");
    let attributes = &body["object_attributes"];
    assert_eq!(
        (&attributes["iid"], &attributes["state"], &attributes["state_id"]),
        (&json!(iid), &json!("opened"), &json!(1))
    );
    assert_eq!((&attributes["action"], &attributes["title"]), (&json!("open"), &json!("t")));
    assert_eq!((&attributes["assignee_id"], &attributes["assignee_ids"]), (&json!(ann.id), &json!([ann.id])));
    assert_eq!(attributes["url"], format!("{}/of-hooked/hooked/-/issues/{iid}", server.base));
    assert!(attributes["created_at"].as_str().expect("a date").ends_with(" UTC"));
    let path = format!("/projects/{id}/issues/{iid}");
    for (change, action, field) in [
        (json!({"title": "new"}), "update", "title"),
        (json!({"labels": ""}), "update", "labels"),
        (json!({"state_event": "close"}), "close", "state_id"),
        (json!({"state_event": "reopen"}), "reopen", "state_id"),
    ] {
        root.put(&path, change).await.expect(200);
        server.finish_jobs().await;
        let delivery = receiver.next().await.body;
        assert_eq!(delivery["object_attributes"]["action"], action);
        assert!(delivery["changes"][field]["previous"] != delivery["changes"][field]["current"], "{field}: {delivery}");
    }
    let change = json!({"title": "newer", "add_labels": "bug,ui", "assignee_ids": []});
    root.put(&path, change).await.expect(200);
    server.finish_jobs().await;
    let delivery = receiver.next().await.body;
    let changes = &delivery["changes"];
    assert_eq!(changes["labels"]["previous"], json!([]));
    for label in delivery["labels"].as_array().expect("labels") {
        assert!(changes["labels"]["current"].as_array().expect("labels").contains(label), "{delivery}");
    }
    assert_eq!(changes["labels"]["current"].as_array().map(Vec::len), Some(2));
    assert_eq!(changes["assignees"]["previous"][0]["username"], "ann");
    assert_eq!(changes["assignees"]["current"], json!([]));
    assert_eq!(changes["updated_at"]["current"], delivery["object_attributes"]["updated_at"]);
    for absent in ["label_ids", "assignee_ids"] {
        assert_eq!(changes.get(absent), None);
    }
    // Updates trigger webhooks but are not listed as events.
    let returned = root.get(&format!("/projects/{id}/events?target_type=issue")).await.expect(200).pluck("action_name");
    assert_eq!(returned, [json!("reopened"), json!("closed"), json!("opened")]);
}

async fn confidential_issues_trigger_only_confidential_issue_webhooks(server: TestServer) {
    let root = server.root();
    let id = public_project(&server, "hooked").await;
    let (mut public_receiver, mut confidential_receiver) = (Receiver::start().await, Receiver::start().await);
    hook(&server, id, &public_receiver.url, json!({"issues_events": true})).await;
    hook(&server, id, &confidential_receiver.url, json!({"confidential_issues_events": true})).await;
    open(&root, id, json!({"title": "hush", "confidential": true})).await;
    open(&root, id, json!({"title": "open"})).await;
    server.finish_jobs().await;
    let delivery = confidential_receiver.next().await;
    assert_eq!(delivery.header("x-service-event"), "Confidential Issue Hook");
    assert_eq!(
        (&delivery.body["event_type"], &delivery.body["object_attributes"]["title"]),
        (&json!("confidential_issue"), &json!("hush"))
    );
    assert_eq!(public_receiver.next().await.body["object_attributes"]["title"], "open");
}

async fn pending_deliveries_fail_after_issue_becomes_confidential(server: TestServer) {
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
    let delivery = receiver.next().await.body;
    assert_eq!(delivery["object_attributes"]["iid"], other, "{delivery}");
    let log_entries = root.get(&log).await.expect(200).json();
    let withheld: Vec<&Value> =
        log_entries.as_array().expect("a list").iter().filter(|row| row["state"] == "failed").collect();
    assert_eq!(withheld.len(), 2, "{log_entries}");
    for row in withheld {
        assert_eq!((&row["error"], &row["attempts"]), (&json!("the resource is now confidential"), &json!(1)));
    }
    // A delivery from the time when the issue was visible to all cannot be resent.
    let delivered =
        log_entries.as_array().expect("a list").iter().find(|row| row["state"] == "delivered").expect("one");
    root.put(&format!("/projects/{id}/issues/{other}"), json!({"confidential": true})).await.expect(200);
    root.post(&format!("{log}/{}/resend", delivered["id"]), json!({})).await.expect(409);
}

async fn deliveries_of_confidential_or_deleted_resources_are_not_resent(server: TestServer) {
    let root = server.root();
    let id = public_project(&server, "hushed").await;
    let mut receiver = Receiver::start().await;
    hook(&server, id, &receiver.url, json!({"issues_events": true, "note_events": true})).await;
    let hooks = format!("/projects/{id}/hooks");
    let one = format!("{hooks}/{}", root.get(&hooks).await.expect(200).json()[0]["id"]);
    let iid = open(&root, id, json!({"title": "open until now"})).await;
    let path = format!("/projects/{id}/issues/{iid}");
    root.post(&format!("{path}/notes"), json!({"body": "seen by all until now"})).await.expect(201);
    server.finish_jobs().await;
    for trigger in ["issues_events", "note_events"] {
        root.post(&format!("{one}/test/{trigger}"), json!({})).await.expect(201);
    }
    let ids = root.get(&format!("{one}/events")).await.expect(200).pluck("id");
    assert_eq!((ids.len(), receiver.rest().len()), (4, 4));
    let resend = async |delivery: &Value| root.post(&format!("{one}/events/{delivery}/resend"), json!({})).await;
    for delivery in &ids[..2] {
        resend(delivery).await.expect(201);
    }
    root.put(&path, json!({"confidential": true})).await.expect(200);
    for delivery in &ids {
        let refused = resend(delivery).await.expect(409);
        assert_eq!(refused.message(), "The resource of this delivery is now confidential");
    }
    root.delete(&path).await.expect(204);
    for delivery in &ids {
        assert_eq!(resend(delivery).await.expect(409).message(), "The resource of this delivery was deleted");
    }
    assert_eq!(receiver.rest().len(), 2);
}

async fn withheld_delivery_stores_no_payload(server: TestServer) {
    let root = server.root();
    let id = public_project(&server, "hushed").await;
    let address = unused_address().await;
    hook(&server, id, &address, json!({"issues_events": true})).await;
    let hooks = format!("/projects/{id}/hooks");
    let hook_id = root.get(&hooks).await.expect(200).json()[0]["id"].as_i64().expect("an ID");
    let log = format!("{hooks}/{hook_id}/events");
    let iid = open(&root, id, json!({"title": "open until now"})).await;
    domain::webhooks::delivery::deliver(&server.backend, hook_id).await.expect("an attempt");
    let delivery = format!("{log}/{}", root.get(&log).await.expect(200).json()[0]["id"]);
    assert!(root.get(&delivery).await.expect(200).json()["request_data"].is_object());
    root.put(&format!("/projects/{id}/issues/{iid}"), json!({"confidential": true})).await.expect(200);
    hook_deliveries::Entity::update_many()
        .col_expr(hook_deliveries::Column::NextAttemptAt, Expr::value(now()))
        .exec(server.backend.database.write())
        .await
        .expect("a change");
    domain::webhooks::delivery::deliver(&server.backend, hook_id).await.expect("an attempt");
    let shown = root.get(&delivery).await.expect(200).json();
    assert_eq!((&shown["state"], shown.get("request_data")), (&json!("failed"), None));
    root.post(&format!("{delivery}/resend"), json!({})).await.expect(409);
}

async fn target_of_a_move_is_sent_only_if_it_is_public(server: TestServer) {
    let root = server.root();
    let (from, public) = (public_project(&server, "from").await, public_project(&server, "to").await);
    let private = project(&root, "private", json!({"visibility": "private"})).await;
    let mut receiver = Receiver::start().await;
    hook(&server, from, &receiver.url, json!({"issues_events": true})).await;
    for (to, is_shown) in [(public, true), (private, false)] {
        let iid = open(&root, from, json!({"title": "t"})).await;
        let path = format!("/projects/{from}/issues/{iid}");
        let moved = root.post(&format!("{path}/move"), json!({"to_project_id": to})).await.expect(201).json();
        root.put(&path, json!({"title": "moved"})).await.expect(200);
        server.finish_jobs().await;
        let last = receiver.rest().pop().expect("a request").body;
        assert_eq!(last["object_attributes"]["title"], "moved");
        let expected = if is_shown { moved["id"].clone() } else { Value::Null };
        assert_eq!(last["object_attributes"]["moved_to_id"], expected);
        // A target that became confidential is not sent.
        let target = format!("/projects/{to}/issues/{}", moved["iid"]);
        root.put(&target, json!({"confidential": true})).await.expect(200);
        root.put(&path, json!({"title": "again"})).await.expect(200);
        server.finish_jobs().await;
        assert_eq!(receiver.next().await.body["object_attributes"]["moved_to_id"], Value::Null);
    }
}

on_every_database![
    webhook_receives_issue_events_with_changes,
    confidential_issues_trigger_only_confidential_issue_webhooks,
    pending_deliveries_fail_after_issue_becomes_confidential,
    deliveries_of_confidential_or_deleted_resources_are_not_resent,
    withheld_delivery_stores_no_payload,
    target_of_a_move_is_sent_only_if_it_is_public,
];
