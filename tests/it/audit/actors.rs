//! Authors of audit events and addresses of clients, and events of failed actions.

use holdfast::config::ConfigOptions;
use reqwest::Method;
use sea_orm::EntityTrait;
use sea_orm::sea_query::Expr;
use serde_json::json;
use storage::entities::audit_events;

use super::{last_id, names_after, newest};
use crate::support::server::ROOT_TOKEN;
use crate::support::spaces::{group, project};
use crate::support::{TestServer, on_every_database};

async fn sudo_records_user_and_administrator(server: TestServer) {
    let ada = server.create_user("ada").await;
    group(&server.root().header("Sudo", "ada"), "engines", json!({})).await;
    let event = newest(&server, "group_created").await;
    assert_eq!(event["author_id"], json!(ada.id));
    let details = &event["details"];
    assert_eq!((&details["administrator_id"], &details["administrator_name"]), (&json!(1), &json!("Administrator")));
    group(&ada.client, "own", json!({})).await;
    assert_eq!(newest(&server, "group_created").await["details"].get("administrator_id"), None);
}

async fn impersonation_token_is_part_of_event(server: TestServer) {
    let ada = server.create_user("ada").await;
    let path = format!("/users/{}/impersonation_tokens", ada.id);
    let token = server.root().post(&path, json!({ "name": "x", "scopes": ["api"] })).await.expect(201).json();
    let created = newest(&server, "impersonation_token_created").await;
    assert_eq!((&created["author_id"], &created["entity_id"]), (&json!(1), &json!(ada.id)));
    group(&server.with_token(token["token"].as_str().expect("a token")), "engines", json!({})).await;
    let event = newest(&server, "group_created").await;
    assert_eq!((&event["author_id"], &event["details"]["access_token_id"]), (&json!(ada.id), &token["id"]));
}

fn behind_a_proxy() -> ConfigOptions {
    ConfigOptions { trusted_proxies: Some(vec!["127.0.0.1".to_owned()]), ..ConfigOptions::default() }
}

async fn trusted_proxy_states_address(server: TestServer) {
    for (number, (sent, expected)) in
        [("203.0.113.9", "203.0.113.9"), ("1.2.3.4, 2001:db8::7", "2001:db8::7"), ("::ffff:192.0.2.1", "192.0.2.1")]
            .into_iter()
            .enumerate()
    {
        group(&server.root().header("X-Forwarded-For", sent), &format!("g{number}"), json!({})).await;
        assert_eq!(newest(&server, "group_created").await["details"]["ip_address"], expected);
    }
}

async fn forwarded_address_is_ignored_without_proxy(server: TestServer) {
    group(&server.root().header("X-Forwarded-For", "203.0.113.9"), "engines", json!({})).await;
    assert_eq!(newest(&server, "group_created").await["details"]["ip_address"], "127.0.0.1");
}

async fn refused_and_failed_actions_leave_no_event(server: TestServer) {
    let (ada, root) = (server.create_user("ada").await, server.root());
    let engines = group(&root, "engines", json!({})).await;
    let work = project(&root, "work", json!({ "namespace_id": engines })).await;
    let last = last_id(&server).await;
    root.post("/groups", json!({ "name": "engines", "path": "engines" })).await.expect(400);
    root.post(&format!("/projects/{work}/members"), json!({ "user_id": ada.id, "access_level": 50 })).await.expect(400);
    root.post(&format!("/groups/{engines}/members"), json!({ "user_id": 999, "access_level": 10 })).await.expect(404);
    root.post(&format!("/users/{}/keys", ada.id), json!({ "title": "x", "key": "ssh-ed25519 x" })).await.expect(400);
    root.put(&format!("/projects/{work}"), json!({ "name": "x", "visibility": "public" })).await.expect(400);
    root.post("/applications", json!({ "name": "x", "redirect_uri": "/x", "scopes": "api" })).await.expect(400);
    ada.client.post(&format!("/projects/{work}/archive"), json!({})).await.expect(404);
    // Nothing changes.
    root.put(&format!("/groups/{engines}"), json!({ "name": "engines" })).await.expect(200);
    root.put("/application/settings", json!({ "impersonation_enabled": true })).await.expect(200);
    assert_eq!(names_after(&server, last).await, [""; 0]);
    root.get(&format!("/groups/{engines}")).await.expect(200);
    assert_eq!(names_after(&server, last).await, [""; 0]);
}

/// A failed insert of the event rolls the action back.
async fn action_without_its_event_does_not_happen(server: TestServer) {
    use sea_orm::ConnectionTrait;
    let root = server.root();
    let engines = group(&root, "engines", json!({})).await;
    let db = server.backend.database.write();
    db.execute_unprepared("ALTER TABLE audit_events RENAME TO hidden_events").await.expect("a rename");
    // Not by `put`, which fails for every status 500.
    let update = root.request(Method::PUT, &format!("/groups/{engines}")).json(&json!({ "name": "other" }));
    assert_eq!(update.send().await.expect("a response").status(), 500);
    db.execute_unprepared("ALTER TABLE hidden_events RENAME TO audit_events").await.expect("a rename");
    assert_eq!(root.get(&format!("/groups/{engines}")).await.expect(200).json()["name"], "engines");
}

async fn events_cannot_be_updated(server: TestServer) {
    let db = server.backend.database.write();
    let update = audit_events::Entity::update_many().col_expr(audit_events::Column::AuthorId, Expr::value(7));
    let error = update.exec(db).await.expect_err("a refusal");
    assert!(error.to_string().contains("audit events cannot be updated"), "{error}");
}

async fn first_start_is_the_system(server: TestServer) {
    let created = newest(&server, "user_created").await;
    assert_eq!((&created["author_id"], &created["details"]["author_name"]), (&json!(-1), &json!("System")));
    assert_eq!(created["details"].get("ip_address"), None);
    let token = newest(&server, "personal_access_token_created").await;
    assert_eq!((&token["author_id"], &token["entity_id"]), (&json!(-1), &json!(1)));
    assert!(!token.to_string().contains(ROOT_TOKEN));
}

on_every_database![
    sudo_records_user_and_administrator,
    impersonation_token_is_part_of_event,
    trusted_proxy_states_address with behind_a_proxy(),
    forwarded_address_is_ignored_without_proxy,
    refused_and_failed_actions_leave_no_event,
    action_without_its_event_does_not_happen,
    events_cannot_be_updated,
    first_start_is_the_system,
];
