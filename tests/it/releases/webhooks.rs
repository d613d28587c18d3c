//! Webhook events of releases.

use sea_orm::EntityTrait;
use serde_json::{Value, json};
use storage::entities::{Visibility, events};

use super::release;
use crate::support::code::Project;
use crate::support::webhook_receiver::Receiver;
use crate::support::{TestServer, on_every_database};

async fn webhook_receives_release_events(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    project.git(&["tag", "v1", "main"]);
    let path = format!("/projects/{}", project.id);
    let mut receiver = Receiver::start().await;
    let hook = json!({ "url": receiver.url, "push_events": false, "releases_events": true });
    let hook = root.post(&format!("{path}/hooks"), hook).await.expect(201).json();
    assert_eq!(hook["releases_events"], true);
    let link = json!({ "name": "a", "url": "https://example.com/a", "link_type": "image" });
    let extra = json!({ "name": "First", "description": "Notes", "assets": { "links": [link] } });
    let created = release(&root, &path, "v1", extra).await;
    let url = format!("{path}/releases/v1");
    root.put(&url, json!({ "name": "Second" })).await.expect(200);
    // A change to the present value is no event.
    root.put(&url, json!({ "name": "Second" })).await.expect(200);
    root.delete(&url).await.expect(200);
    server.finish_jobs().await;
    let delivery = receiver.next().await;
    assert_eq!(delivery.header("x-service-event"), "Release Hook");
    let body = delivery.body;
    let source = |format: &str| {
        let sources = created["assets"]["sources"].as_array().expect("a list");
        let found = sources.iter().find(|source| source["format"] == format);
        json!({ "format": format, "url": found.expect("a source")["url"] })
    };
    assert_eq!(
        body["assets"],
        json!({
            "count": 5,
            "links": [{
                "id": created["assets"]["links"][0]["id"], "external": true, "link_type": "image", "name": "a",
                "url": "https://example.com/a",
            }],
            "sources": [source("zip"), source("tar.gz"), source("tar.bz2"), source("tar")],
        })
    );
    assert_eq!(
        (&body["object_kind"], &body["action"], &body["tag"], &body["name"], &body["description"]),
        (&json!("release"), &json!("create"), &json!("v1"), &json!("First"), &json!("Notes"))
    );
    assert_eq!(
        (&body["url"], &body["project"]["id"], &body["commit"]["id"]),
        (&created["_links"]["self"], &json!(project.id), &json!(project.id("main")))
    );
    assert_eq!((body.get("user"), body.get("object_attributes")), (None, None));
    for action in ["update", "delete"] {
        let body = receiver.next().await.body;
        assert_eq!((&body["action"], &body["name"]), (&json!(action), &json!("Second")));
        assert_eq!(body["assets"]["count"], 5);
    }
    assert_eq!(receiver.rest().len(), 0);
    // Lists of events omit them.
    let stored = events::Entity::find().all(server.backend.database.read()).await.expect("a query");
    assert!(stored.iter().any(|event| event.target_title.as_deref() == Some("Second")));
    let listed = root.get(&format!("{path}/events")).await.expect(200);
    assert!(!listed.pluck("target_type").contains(&json!("Release")));
}

async fn release_of_new_tag_triggers_tag_push_webhook(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let path = format!("/projects/{}", project.id);
    let mut receiver = Receiver::start().await;
    let hook = json!({ "url": receiver.url, "push_events": false, "tag_push_events": true });
    root.post(&format!("{path}/hooks"), hook).await.expect(201);
    release(&root, &path, "v1", json!({})).await;
    server.finish_jobs().await;
    let delivery = receiver.next().await;
    assert_eq!((&delivery.body["object_kind"], &delivery.body["ref"]), (&json!("tag_push"), &json!("refs/tags/v1")));
    assert_eq!(receiver.rest().len(), 0);
}

async fn test_delivery_contains_newest_release(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let path = format!("/projects/{}", project.id);
    let mut receiver = Receiver::start().await;
    let hook = root.post(&format!("{path}/hooks"), json!({ "url": receiver.url })).await.expect(201).json();
    assert_eq!(hook["releases_events"], false);
    let test = format!("{path}/hooks/{}/test/releases_events", hook["id"]);
    let response = root.post(&test, json!({})).await.expect(422);
    assert_eq!(response.message(), "Ensure the project has releases.");
    release(&root, &path, "v1", json!({})).await;
    release(&root, &path, "v2", json!({ "ref": "main~1" })).await;
    let sent = root.post(&test, json!({})).await.expect(201).json();
    assert_eq!(sent["trigger"], "release_hooks");
    let body: Value = receiver.next().await.body;
    assert_eq!((&body["tag"], &body["action"]), (&json!("v2"), &json!("create")));
    assert_eq!(body["commit"]["id"], project.id("main~1"));
}

on_every_database![
    webhook_receives_release_events,
    release_of_new_tag_triggers_tag_push_webhook,
    test_delivery_contains_newest_release,
];
