//! Secrets of a webhook when its URL changes.

use domain::webhooks::delivery::deliver;
use sea_orm::EntityTrait;
use serde_json::{Value, json};
use storage::entities::{Visibility, project_hooks};

use super::{commit, hook};
use crate::support::code::Project;
use crate::support::webhook_receiver::{Receiver, Reply};
use crate::support::{TestServer, on_every_database};

const TOKEN: &str = "x-service-token";

async fn row(server: &TestServer, id: i64) -> project_hooks::Model {
    let found = project_hooks::Entity::find_by_id(id).one(server.backend.database.read()).await;
    found.expect("a query").expect("a webhook")
}

async fn new_receiver_does_not_get_the_stored_token(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let (mut old, mut new) = (Receiver::start().await, Receiver::start().await);
    let root = server.root();
    let id = hook(&root, project.id, &old.url, json!({ "token": "old-secret" })).await;
    let one = format!("/projects/{}/hooks/{id}", project.id);
    let send = async |url: &str, extra: Value| {
        let mut body = json!({ "url": url });
        body.as_object_mut().expect("an object").extend(extra.as_object().expect("an object").clone());
        root.put(&one, body).await.expect(200);
        let delivery = root.post(&format!("{one}/test/push_events"), json!({})).await.expect(201).json();
        assert_eq!((&delivery["state"], &delivery["url"]), (&json!("delivered"), &json!(url)));
    };
    send(&format!("{}/path?query=1", old.url), json!({})).await;
    assert_eq!(old.next().await.header(TOKEN), "old-secret");
    send(&new.url, json!({})).await;
    let arrived = new.next().await;
    assert!(!format!("{arrived:?}").contains("old-secret"), "{arrived:?}");
    assert_eq!(row(&server, id).await.token_encrypted, None);
    // The token does not return with the old address.
    send(&old.url, json!({})).await;
    assert_eq!(old.next().await.header(TOKEN), "");
    send(&new.url, json!({ "token": "new-secret" })).await;
    assert_eq!(new.next().await.header(TOKEN), "new-secret");
    send(&format!("{}/other", new.url), json!({ "push_events": true })).await;
    assert_eq!(new.next().await.header(TOKEN), "new-secret");
    assert!(old.rest().is_empty() && new.rest().is_empty());
}

async fn token_is_deleted_only_if_the_origin_changes(server: TestServer) {
    let project = Project::empty(&server, "p", Visibility::Private).await;
    let root = server.root();
    let id = hook(&root, project.id, "https://hooks.example.com/a", json!({})).await;
    let one = format!("/projects/{}/hooks/{id}", project.id);
    for (before, after, remains) in [
        ("https://hooks.example.com/a", "https://hooks.example.com/b?c=d#e", true),
        ("https://hooks.example.com/a", "https://HOOKS.Example.com:443/a", true),
        ("https://hooks.example.com/a", "https://ada:secret@hooks.example.com/a", true),
        ("https://ada:secret@hooks.example.com/a", "https://ada@hooks.example.com/a", true),
        ("http://hooks.example.com:80/a", "http://hooks.example.com/a", true),
        ("https://b\u{fc}cher.example/", "https://xn--bcher-kva.example/x", true),
        ("https://hooks.example.com/a", "http://hooks.example.com/a", false),
        ("https://hooks.example.com/a", "https://hooks.example.com:8443/a", false),
        ("https://hooks.example.com/a", "https://hooks.example.com./a", false),
        ("https://hooks.example.com/a", "https://evil.example/a", false),
        ("https://hooks.example.com/a", "https://hooks.example.com@evil.example/a", false),
        ("https://hooks.example.com/a", "https://evil.example\\@hooks.example.com/a", false),
        ("https://b\u{fc}cher.example/", "https://bucher.example/", false),
    ] {
        root.put(&one, json!({ "url": before, "token": "t0ken" })).await.expect(200);
        let token = row(&server, id).await.token_encrypted;
        assert!(token.is_some());
        root.put(&one, json!({ "url": after })).await.expect(200);
        let expected = token.filter(|_| remains);
        assert_eq!(row(&server, id).await.token_encrypted, expected, "{before} to {after}");
    }
}

async fn masked_password_is_accepted_only_with_same_origin_and_username(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let (mut receiver, mut other) = (Receiver::start().await, Receiver::start().await);
    let with = |url: &str, user: &str| url.replace("http://", &format!("http://{user}@"));
    let root = server.root();
    let id = hook(&root, project.id, &with(&receiver.url, "ada:s3cret"), json!({ "token": "t0ken" })).await;
    let one = format!("/projects/{}/hooks/{id}", project.id);
    let stored = row(&server, id).await;
    let port = receiver.url.rsplit_once(':').expect("a port").1;
    for url in [
        with(&other.url, "ada:*****"),
        with(&receiver.url, "bob:*****"),
        with(&receiver.url, ":*****"),
        format!("https://ada:*****@127.0.0.1:{port}/"),
        format!("http://ada:*****@localhost:{port}/"),
    ] {
        for body in [json!({ "url": url }), json!({ "url": url, "token": "new" })] {
            let rejected = root.put(&one, body).await.expect(422);
            assert!(rejected.message().starts_with("Invalid url given: the hidden password"), "{url}");
            assert_eq!(row(&server, id).await, stored);
        }
    }
    let test = format!("{one}/test/push_events");
    let path = format!("{}/path", with(&receiver.url, "ada:*****"));
    assert_eq!(root.put(&one, json!({ "url": path })).await.expect(200).json()["url"], path);
    root.post(&test, json!({})).await.expect(201);
    let arrived = receiver.next().await;
    // "ada:s3cret" in Base64.
    assert_eq!((arrived.line.as_str(), arrived.header("authorization")), ("POST /path", "Basic YWRhOnMzY3JldA=="));
    // A username alone does not get the stored password.
    root.put(&one, json!({ "url": with(&other.url, "ada") })).await.expect(200);
    let changed = row(&server, id).await;
    assert_eq!((changed.password_encrypted, changed.token_encrypted), (None, None));
    root.post(&test, json!({})).await.expect(201);
    assert_eq!(other.next().await.header("authorization"), "Basic YWRhOg==");
    root.put(&one, json!({ "url": with(&other.url, "ada:*****") })).await.expect(422);
}

async fn pending_delivery_uses_url_and_token_of_the_update(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let mut old = Receiver::with(|_| Reply::Status(503)).await;
    let (mut new, mut last) = (Receiver::start().await, Receiver::start().await);
    let root = server.root();
    let id = hook(&root, project.id, &old.url, json!({ "token": "old-secret" })).await;
    let one = format!("/projects/{}/hooks/{id}", project.id);
    let pushed = commit(&root, project.id, "main", "a").await;
    deliver(&server.backend, id).await.expect("a turn");
    assert_eq!(old.next().await.header(TOKEN), "old-secret");
    // The delivery was attempted at the old address, and is retried at the new one.
    root.put(&one, json!({ "url": new.url, "token": "new-secret" })).await.expect(200);
    deliver(&server.backend, id).await.expect("a turn");
    let arrived = new.next().await;
    assert_eq!((arrived.header(TOKEN), &arrived.body["after"]), ("new-secret", &json!(pushed)));
    let log = root.get(&format!("{one}/events")).await.expect(200).json();
    assert_eq!((&log[0]["state"], &log[0]["url"]), (&json!("delivered"), &json!(new.url)));
    // A finished delivery is repeated at the address of the last update, without the token of the address before.
    root.put(&one, json!({ "url": last.url })).await.expect(200);
    let again = root.post(&format!("{one}/events/{}/resend", log[0]["id"]), json!({})).await.expect(201).json();
    assert_eq!((&again["state"], &again["url"]), (&json!("delivered"), &json!(last.url)));
    let arrived = last.next().await;
    assert_eq!((arrived.header(TOKEN), &arrived.body["after"]), ("", &json!(pushed)));
    // So is a pending delivery that no attempt was made for.
    let pushed = commit(&root, project.id, "main", "b").await;
    root.put(&one, json!({ "url": new.url })).await.expect(200);
    deliver(&server.backend, id).await.expect("a turn");
    let arrived = new.next().await;
    assert_eq!((arrived.header(TOKEN), &arrived.body["after"]), ("", &json!(pushed)));
    assert!(old.rest().is_empty() && new.rest().is_empty() && last.rest().is_empty());
}

on_every_database![
    new_receiver_does_not_get_the_stored_token,
    token_is_deleted_only_if_the_origin_changes,
    masked_password_is_accepted_only_with_same_origin_and_username,
    pending_delivery_uses_url_and_token_of_the_update,
];
