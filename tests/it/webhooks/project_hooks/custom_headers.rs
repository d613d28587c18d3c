//! Custom headers of webhooks.

use sea_orm::EntityTrait;
use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility, project_hooks};

use super::{commit, hook};
use crate::support::code::Project;
use crate::support::webhook_receiver::{Receiver, Reply};
use crate::support::{TestServer, on_every_database};

/// Custom headers for the body of a request.
fn headers(pairs: &[(&str, &str)]) -> Value {
    pairs.iter().map(|(key, value)| json!({ "key": key, "value": value })).collect()
}

async fn row(server: &TestServer) -> project_hooks::Model {
    let found = project_hooks::Entity::find().one(server.backend.database.read()).await;
    found.expect("a query").expect("a webhook")
}

async fn custom_headers_are_sent_and_their_values_never_returned(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let mut receiver = Receiver::start().await;
    let root = server.root();
    let sent = headers(&[("X-Environment", "very secret"), ("Accept", "text/plain")]);
    let all = format!("/projects/{}/hooks", project.id);
    let created = root.post(&all, json!({ "url": receiver.url, "custom_headers": sent })).await.expect(201);
    assert!(!created.text().contains("very secret"));
    let created = created.json();
    assert_eq!(created["custom_headers"], json!([{ "key": "X-Environment" }, { "key": "Accept" }]));
    let one = format!("{all}/{}", created["id"]);
    assert_eq!(root.get(&one).await.expect(200).json(), created);
    assert!(!format!("{:?}", row(&server).await).contains("very secret"));
    commit(&root, project.id, "main", "a").await;
    let waiting = root.get(&format!("{one}/events")).await.expect(200).json();
    assert_eq!(waiting[0]["request_headers"].as_object().map(serde_json::Map::len), Some(3));
    server.finish_jobs().await;
    let arrived = receiver.next().await;
    assert_eq!((arrived.header("x-environment"), arrived.header("accept")), ("very secret", "text/plain"));
    let log = root.get(&format!("{one}/events/{}", waiting[0]["id"])).await.expect(200);
    assert!(!log.text().contains("very secret"));
    let logged = &log.json()["request_headers"];
    assert_eq!((&logged["X-Environment"], &logged["X-Service-Event"]), (&json!("[REDACTED]"), &json!("Push Hook")));
    let test = root.post(&format!("{one}/test/push_events"), json!({})).await.expect(201).json();
    assert_eq!(test["request_headers"]["X-Environment"], "[REDACTED]");
    assert_eq!(receiver.next().await.header("x-environment"), "very secret");
}

async fn headers_of_the_server_have_priority(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let mut receiver = Receiver::start().await;
    let root = server.root();
    let names = ["content-type", "Host", "Content-Length", "User-Agent", "X-Service-Event", "Authorization"];
    let sent: Vec<(&str, &str)> = names.iter().map(|name| (*name, "custom")).collect();
    let url = receiver.url.replace("http://", "http://ada:secret@");
    let extra = json!({ "token": "t0ken", "custom_headers": headers(&sent) });
    let id = hook(&root, project.id, &url, extra).await;
    let one = format!("/projects/{}/hooks/{id}", project.id);
    root.put(&format!("{one}/custom_headers/x-service-token"), json!({ "value": "custom" })).await.expect(204);
    let test = format!("{one}/test/push_events");
    let delivery = root.post(&test, json!({})).await.expect(201).json();
    assert_eq!(delivery["state"], "delivered");
    let arrived = receiver.next().await;
    assert!(!arrived.headers.values().any(|value| value.contains("custom")), "{arrived:?}");
    assert_eq!(arrived.header("x-service-token"), "t0ken");
    assert_eq!(delivery["request_headers"]["X-Service-Token"], "[REDACTED]");
    // Without a password and a token, the custom headers are sent.
    root.put(&one, json!({ "url": receiver.url, "token": null })).await.expect(200);
    root.post(&test, json!({})).await.expect(201);
    let arrived = receiver.next().await;
    assert_eq!((arrived.header("authorization"), arrived.header("x-service-token")), ("custom", "custom"));
}

async fn update_merges_custom_headers_by_name(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let mut receiver = Receiver::start().await;
    let root = server.root();
    let extra = json!({ "custom_headers": headers(&[("X-A", "1"), ("X-B", "2")]) });
    let id = hook(&root, project.id, &receiver.url, extra).await;
    let one = format!("/projects/{}/hooks/{id}", project.id);
    let body = json!({ "url": receiver.url, "custom_headers": headers(&[("x-b", "3"), ("X-C", "4")]) });
    let updated = root.put(&one, body).await.expect(200).json();
    assert_eq!(updated["custom_headers"], json!([{ "key": "X-A" }, { "key": "x-b" }, { "key": "X-C" }]));
    root.put(&one, json!({ "url": receiver.url, "custom_headers": [] })).await.expect(200);
    root.put(&format!("{one}/custom_headers/X-D"), json!({ "value": "5" })).await.expect(204);
    root.put(&format!("{one}/custom_headers/x-a"), json!({ "value": "6" })).await.expect(204);
    let removed = root.delete(&format!("{one}/custom_headers/x-C")).await.expect(204);
    assert_eq!(removed.text(), "");
    let missing = root.delete(&format!("{one}/custom_headers/X-C")).await.expect(404);
    assert_eq!(missing.message(), "404 Custom header Not Found");
    root.post(&format!("{one}/test/push_events"), json!({})).await.expect(201);
    let arrived = receiver.next().await;
    let values = ["x-a", "x-b", "x-c", "x-d"].map(|name| arrived.header(name).to_owned());
    assert_eq!(values, ["6", "3", "", "5"]);
    let before = row(&server).await;
    root.put(&format!("{one}/custom_headers/X-D"), json!({ "value": "5" })).await.expect(204);
    assert_eq!(row(&server).await, before);
    for name in ["x-a", "x-b", "x-d"] {
        root.delete(&format!("{one}/custom_headers/{name}")).await.expect(204);
    }
    let empty = row(&server).await;
    assert_eq!((empty.custom_header_keys, empty.custom_headers_encrypted), (None, None));
}

async fn invalid_custom_headers_are_rejected(server: TestServer) {
    let project = Project::empty(&server, "p", Visibility::Private).await;
    let root = server.root();
    let all = format!("/projects/{}/hooks", project.id);
    let id = hook(&root, project.id, "https://a.example.com/", json!({})).await;
    let one = format!("{all}/{id}");
    let long = "x".repeat(2049);
    let bad = [
        ("a b", "x"),
        ("1a", "x"),
        ("a-", "x"),
        ("X-A", ""),
        ("X-A", " "),
        ("X-A", "x\r\nb: y"),
        ("X-A", long.as_str()),
    ];
    for (key, value) in bad {
        let body = json!({ "url": "https://a.example.com/", "custom_headers": headers(&[(key, value)]) });
        for rejected in [root.post(&all, body.clone()).await, root.put(&one, body).await] {
            assert_eq!(rejected.expect(422).message(), "Custom headers validation failed", "{key}");
        }
        let path = format!("{one}/custom_headers/{}", key.replace(' ', "%20"));
        let rejected = root.put(&path, json!({ "value": value })).await;
        assert_eq!(rejected.expect(422).message(), "Illegal key or value", "{key}");
    }
    let rejected = root.put(&format!("{one}/custom_headers/X-A"), json!({})).await;
    assert_eq!(rejected.expect(400).json()["error"], "value is missing");
    let names: Vec<String> = (0..20).map(|number| format!("X-{number}")).collect();
    let many: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "x")).collect();
    let body = json!({ "url": "https://a.example.com/", "custom_headers": headers(&many) });
    root.put(&one, body).await.expect(200);
    root.put(&format!("{one}/custom_headers/X-20"), json!({ "value": "x" })).await.expect(422);
    root.put(&format!("{one}/custom_headers/X-19"), json!({ "value": "y" })).await.expect(204);
    let body = json!({ "url": "https://a.example.com/", "custom_headers": headers(&[("X-20", "x")]) });
    root.put(&one, body).await.expect(422);
}

async fn custom_headers_require_maintainer_and_existing_webhook(server: TestServer) {
    let project = Project::empty(&server, "p", Visibility::Private).await;
    let id = hook(&server.root(), project.id, "https://a.example.com/", json!({})).await;
    let path = format!("/projects/{}/hooks/{id}/custom_headers/X-A", project.id);
    let body = json!({ "value": "x" });
    let developer = project.member("dev", AccessLevel::Developer).await;
    let maintainer = project.member("main", AccessLevel::Maintainer).await;
    let non_member = server.create_user("stranger").await.client;
    for (client, status) in [(&server.anonymous(), 401), (&non_member, 404), (&developer, 403)] {
        assert_eq!(client.put(&path, body.clone()).await.status, status);
        assert_eq!(client.delete(&path).await.status, status);
    }
    maintainer.put(&path, body.clone()).await.expect(204);
    maintainer.delete(&path).await.expect(204);
    let other = Project::empty(&server, "other", Visibility::Private).await;
    for wrong in [format!("/projects/{}/hooks/{id}", other.id), format!("/projects/{}/hooks/4711", project.id)] {
        let wrong = format!("{wrong}/custom_headers/X-A");
        assert_eq!(server.root().put(&wrong, body.clone()).await.expect(404).message(), "404 Not found");
        assert_eq!(server.root().delete(&wrong).await.expect(404).message(), "404 Not found");
    }
    let odd = format!("/projects/{}/hooks/x/custom_headers/X-A", project.id);
    assert_eq!((maintainer.put(&odd, body).await.status, maintainer.delete(&odd).await.status), (400, 400));
    let large = json!({ "value": "x".repeat(1_100_000) });
    assert_eq!(maintainer.put(&path, large).await.status, 413);
}

async fn another_origin_deletes_custom_headers(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let (mut old, mut new) = (Receiver::start().await, Receiver::start().await);
    let root = server.root();
    let extra = json!({ "custom_headers": headers(&[("X-A", "old-secret"), ("X-B", "old-secret")]) });
    let id = hook(&root, project.id, &old.url, extra).await;
    let one = format!("/projects/{}/hooks/{id}", project.id);
    let test = format!("{one}/test/push_events");
    root.put(&one, json!({ "url": format!("{}/path", old.url) })).await.expect(200);
    root.post(&test, json!({})).await.expect(201);
    assert_eq!(old.next().await.header("x-a"), "old-secret");
    let body = json!({ "url": new.url, "custom_headers": headers(&[("X-B", "new-secret")]) });
    let updated = root.put(&one, body).await.expect(200).json();
    assert_eq!(updated["custom_headers"], json!([{ "key": "X-B" }]));
    root.post(&test, json!({})).await.expect(201);
    let arrived = new.next().await;
    assert_eq!((arrived.header("x-a"), arrived.header("x-b")), ("", "new-secret"));
    assert!(!format!("{arrived:?}").contains("old-secret"));
    let updated = root.put(&one, json!({ "url": old.url })).await.expect(200).json();
    assert_eq!(updated["custom_headers"], json!([]));
    assert_eq!(row(&server).await.custom_headers_encrypted, None);
}

async fn redirect_to_another_origin_has_no_custom_headers(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let mut last = Receiver::start().await;
    let to = last.url.clone();
    let mut first = Receiver::with(move |_| Reply::Redirect(307, to.clone())).await;
    let extra = json!({ "custom_headers": headers(&[("X-A", "secret")]) });
    let id = hook(&server.root(), project.id, &first.url, extra).await;
    let test = format!("/projects/{}/hooks/{id}/test/push_events", project.id);
    server.root().post(&test, json!({})).await.expect(201);
    assert_eq!((first.next().await.header("x-a"), last.next().await.header("x-a")), ("secret", ""));
}

on_every_database![
    custom_headers_are_sent_and_their_values_never_returned,
    headers_of_the_server_have_priority,
    update_merges_custom_headers_by_name,
    invalid_custom_headers_are_rejected,
    custom_headers_require_maintainer_and_existing_webhook,
    another_origin_deletes_custom_headers,
    redirect_to_another_origin_has_no_custom_headers,
];
