//! Templates of the bodies of webhooks.

use sea_orm::EntityTrait;
use serde_json::{Value, json};
use storage::entities::{Visibility, project_hooks};

use super::hook;
use crate::support::code::Project;
use crate::support::webhook_receiver::Receiver;
use crate::support::{TestServer, on_every_database};

/// A template for issue events.
const TEMPLATE: &str =
    r#"{"text":"{{user.username}}: {{object_attributes.title}}","labels":{{labels}},"gone":{{a.b}}}"#;

async fn template_is_filled_with_the_payload(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let mut receiver = Receiver::start().await;
    let root = server.root();
    let extra = json!({ "push_events": false, "issues_events": true, "custom_webhook_template": TEMPLATE });
    let id = hook(&root, project.id, &receiver.url, extra).await;
    let one = format!("/projects/{}/hooks/{id}", project.id);
    assert_eq!(root.get(&one).await.expect(200).json()["custom_webhook_template"], TEMPLATE);
    let title = r#"Say "no", \\ and {{user.email}}"#;
    root.post(&format!("/projects/{}/issues", project.id), json!({ "title": title })).await.expect(201);
    server.finish_jobs().await;
    let expected = json!({ "text": format!("root: {title}"), "labels": [], "gone": null });
    assert_eq!(receiver.next().await.body, expected);
    let log = root.get(&format!("{one}/events")).await.expect(200).json();
    assert_eq!(log[0]["state"], "delivered");
    let delivery = format!("{one}/events/{}", log[0]["id"]);
    let payload = root.get(&delivery).await.expect(200).json()["request_data"].clone();
    assert_eq!((&payload["object_kind"], &payload["object_attributes"]["title"]), (&json!("issue"), &json!(title)));
    root.post(&format!("{delivery}/resend"), json!({})).await.expect(201);
    assert_eq!(receiver.next().await.body, expected);
    for none in [json!(null), json!(" ")] {
        root.put(&one, json!({ "url": receiver.url, "custom_webhook_template": TEMPLATE })).await.expect(200);
        let body = json!({ "url": receiver.url, "custom_webhook_template": none });
        assert_eq!(root.put(&one, body).await.expect(200).json()["custom_webhook_template"], Value::Null);
    }
    root.post(&format!("{delivery}/resend"), json!({})).await.expect(201);
    assert_eq!(receiver.next().await.body, payload);
}

async fn invalid_result_fails_and_is_sent_again_after_a_correction(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let mut receiver = Receiver::start().await;
    let root = server.root();
    let broken = json!({ "issues_events": true, "custom_webhook_template": r#"{"title":{{object_attributes.title}}"# });
    let id = hook(&root, project.id, &receiver.url, broken).await;
    let one = format!("/projects/{}/hooks/{id}", project.id);
    root.post(&format!("/projects/{}/issues", project.id), json!({ "title": "t" })).await.expect(201);
    server.finish_jobs().await;
    let log = root.get(&format!("{one}/events")).await.expect(200).json();
    let error = "the custom template with its values is not a JSON object of at most 25 MiB";
    assert_eq!((&log[0]["state"], &log[0]["attempts"], &log[0]["error"]), (&json!("failed"), &json!(1), &json!(error)));
    let row = project_hooks::Entity::find().one(server.backend.database.read()).await;
    assert_eq!(row.expect("a query").expect("a webhook").failures, 0);
    let test = root.post(&format!("{one}/test/issues_events"), json!({})).await.expect(201).json();
    assert_eq!((&test["state"], &test["error"]), (&json!("failed"), &json!(error)));
    assert!(receiver.rest().is_empty());
    let body = json!({
        "url": receiver.url, "custom_webhook_template": r#"{"title":{{object_attributes.title}}}"#,
    });
    root.put(&one, body).await.expect(200);
    let again = root.post(&format!("{one}/events/{}/resend", log[0]["id"]), json!({})).await.expect(201).json();
    assert_eq!(again["state"], "delivered");
    assert_eq!(receiver.next().await.body, json!({ "title": "t" }));
    let long = json!({ "url": receiver.url, "custom_webhook_template": "x".repeat(4097) });
    root.put(&one, long).await.expect(400);
}

on_every_database![template_is_filled_with_the_payload, invalid_result_fails_and_is_sent_again_after_a_correction,];
