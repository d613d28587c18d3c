//! Creating, reading, updating and deleting webhooks.

use sea_orm::{EntityTrait, PaginatorTrait};
use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility, project_hooks};

use super::{commit, hook};
use crate::planning::issues::open;
use crate::support::code::Project;
use crate::support::webhook_receiver::{ReceivedRequest, Receiver};
use crate::support::{TestServer, on_every_database};

async fn create_webhook_returns_defaults_without_secret(server: TestServer) {
    let project = Project::empty(&server, "p", Visibility::Private).await;
    let root = server.root();
    let url = format!("/projects/{}/hooks", project.id);
    let body = json!({ "url": "https://ci.example.com/hook?a=b", "token": "very secret" });
    let created = root.post(&url, body).await.expect(201);
    assert!(!created.text().contains("very secret"));
    let created = created.json();
    assert_eq!(
        created,
        json!({
            "id": created["id"], "url": "https://ci.example.com/hook?a=b", "name": null, "description": null,
            "branch_filter_strategy": "wildcard", "project_id": project.id, "push_events": true,
            "tag_push_events": false, "issues_events": false, "confidential_issues_events": false,
            "merge_requests_events": false, "note_events": false, "confidential_note_events": false,
            "job_events": false, "pipeline_events": false, "wiki_page_events": false, "releases_events": false,
            "push_events_branch_filter": null,
            "custom_headers": [], "url_variables": [], "custom_webhook_template": null, "token_present": true,
            "signing_token_present": false, "repository_update_events": false, "enable_ssl_verification": true,
            "alert_status": "executable",
            "failing_since": null, "disabled_at": null, "created_at": created["created_at"],
        })
    );
    let one = format!("{url}/{}", created["id"]);
    assert_eq!(root.get(&one).await.expect(200).json(), created);
    assert_eq!(root.get(&url).await.expect(200).json(), json!([created]));
    let stored = format!("{:?}", project_hooks::Entity::find().all(server.backend.database.read()).await.unwrap());
    assert!(!stored.contains("very secret"), "{stored}");
}

async fn update_webhook_changes_only_sent_attributes(server: TestServer) {
    let project = Project::empty(&server, "p", Visibility::Private).await;
    let root = server.root();
    let extra = json!({ "token": "t", "note_events": true, "push_events_branch_filter": "main" });
    let id = hook(&root, project.id, "https://a.example.com/", extra).await;
    let one = format!("/projects/{}/hooks/{id}", project.id);
    let row =
        || async { project_hooks::Entity::find_by_id(id).one(server.backend.database.read()).await.unwrap().unwrap() };
    let token = row().await.token_encrypted;
    let body = json!({ "url": "https://a.example.com/b", "push_events": false, "enable_ssl_verification": false });
    let changed = root.put(&one, body).await.expect(200).json();
    assert_eq!(
        (&changed["url"], &changed["push_events"], &changed["enable_ssl_verification"], &changed["note_events"]),
        (&json!("https://a.example.com/b"), &json!(false), &json!(false), &json!(true))
    );
    assert_eq!(changed["push_events_branch_filter"], "main");
    assert_eq!(row().await.token_encrypted, token);
    let body = json!({ "url": "https://b.example.com/", "token": "u", "push_events_branch_filter": "" });
    let changed = root.put(&one, body).await.expect(200).json();
    assert_eq!(changed["push_events_branch_filter"], Value::Null);
    assert!(row().await.token_encrypted.is_some_and(|new| Some(new) != token));
    root.put(&one, json!({ "url": "https://b.example.com/", "token": null })).await.expect(200);
    assert_eq!(row().await.token_encrypted, None);
}

async fn name_description_and_branch_filter_strategy_are_stored(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let mut receiver = Receiver::start().await;
    let root = server.root();
    let extra = json!({
        "name": "CI", "description": "Builds", "push_events_branch_filter": "^(main|release/.+)$",
        "branch_filter_strategy": "regex",
    });
    let id = hook(&root, project.id, &receiver.url, extra).await;
    let one = format!("/projects/{}/hooks/{id}", project.id);
    let shown = root.get(&one).await.expect(200).json();
    assert_eq!((&shown["name"], &shown["description"]), (&json!("CI"), &json!("Builds")));
    assert_eq!(shown["branch_filter_strategy"], "regex");
    for branch in ["release/1", "mainly", "topic"] {
        project.git(&["branch", branch, "main"]);
        commit(&root, project.id, branch, "a").await;
    }
    server.finish_jobs().await;
    let refs = |requests: Vec<ReceivedRequest>| -> Vec<Value> {
        requests.into_iter().map(|request| request.body["ref"].clone()).collect()
    };
    assert_eq!(refs(receiver.rest()), [json!("refs/heads/release/1")]);
    // The stored expression is not a pattern.
    let change = json!({ "url": receiver.url, "branch_filter_strategy": "wildcard" });
    assert_eq!(root.put(&one, change).await.expect(422).message(), "Invalid branch filter given");
    let change =
        json!({ "url": receiver.url, "branch_filter_strategy": "all_branches", "name": "", "description": null });
    let shown = root.put(&one, change).await.expect(200).json();
    assert_eq!((&shown["name"], &shown["description"]), (&Value::Null, &Value::Null));
    assert_eq!(shown["push_events_branch_filter"], "^(main|release/.+)$");
    commit(&root, project.id, "topic", "b").await;
    server.finish_jobs().await;
    assert_eq!(refs(receiver.rest()), [json!("refs/heads/topic")]);
    let too_long = "x".repeat(256);
    let too_large = "a{1000}b{1000}c{1000}d{1000}";
    for (filter, status) in [("(", 422), ("(?=x)", 422), (&*too_long, 422), (too_large, 422), ("x+", 200)] {
        let change = json!({
            "url": receiver.url, "branch_filter_strategy": "regex", "push_events_branch_filter": filter,
        });
        assert_eq!(root.put(&one, change).await.status, status, "{filter}");
    }
    let odd = json!({ "url": receiver.url, "branch_filter_strategy": "odd" });
    root.put(&one, odd).await.expect(400);
}

async fn password_in_url_is_masked_and_preserved_on_update(server: TestServer) {
    let project = Project::empty(&server, "p", Visibility::Private).await;
    let root = server.root();
    let url = format!("/projects/{}/hooks", project.id);
    let created = root.post(&url, json!({ "url": "https://ada:s3cret@a.example.com/x" })).await.expect(201);
    assert_eq!(created.json()["url"], "https://ada:*****@a.example.com/x");
    let one = format!("{url}/{}", created.json()["id"]);
    let row = || async { project_hooks::Entity::find().one(server.backend.database.read()).await.unwrap().unwrap() };
    let before = row().await;
    assert!(before.password_encrypted.is_some() && !format!("{before:?}").contains("s3cret"));
    root.put(&one, json!({ "url": "https://ada:*****@a.example.com/x" })).await.expect(200);
    assert_eq!(row().await.password_encrypted, before.password_encrypted);
    root.put(&one, json!({ "url": "https://ada:*****@evil.example.com/x" })).await.expect(422);
    assert_eq!(row().await.url, before.url);
    root.put(&one, json!({ "url": "https://a.example.com/x" })).await.expect(200);
    assert_eq!(row().await.password_encrypted, None);
}

async fn create_and_update_webhook_reject_invalid_attributes(server: TestServer) {
    let project = Project::empty(&server, "p", Visibility::Private).await;
    let root = server.root();
    let url = format!("/projects/{}/hooks", project.id);
    let id = hook(&root, project.id, "https://a.example.com/", json!({})).await;
    let one = format!("{url}/{id}");
    for (body, text) in [
        (json!({ "url": "ftp://example.com" }), "Invalid url given"),
        (json!({ "url": "example.com" }), "Invalid url given"),
        (json!({ "url": "http://169.254.169.254/" }), "Invalid url given"),
        (json!({ "url": "http://e.com", "push_events_branch_filter": "~bad/" }), "Invalid branch filter given"),
        (json!({ "url": "http://e.com", "token": "a\nb" }), "Invalid token given"),
    ] {
        for rejected in [root.post(&url, body.clone()).await, root.put(&one, body.clone()).await] {
            let rejected = rejected.expect(422).json();
            assert_eq!((&rejected["message"], &rejected["error"]), (&json!(text), &json!(text)), "{body}");
        }
    }
    for response in [root.post(&url, json!({})).await, root.put(&one, json!({ "push_events": true })).await] {
        assert_eq!(response.expect(400).json()["error"], "url is missing");
    }
    let large = json!({ "url": "http://e.com", "x": "x".repeat(1_100_000) });
    assert_eq!(root.post(&url, large.clone()).await.status, 413);
    assert_eq!(root.put(&one, large).await.status, 413);
    let wide = json!({ "url": "http://e.com", "push_events_branch_filter": "feature/*" });
    root.post(&url, wide).await.expect(201);
    assert_eq!(root.get(&format!("{url}?page=x")).await.status, 400);
}

async fn create_webhook_rejects_local_addresses_by_default(server: TestServer) {
    let project = Project::empty(&server, "p", Visibility::Private).await;
    let url = format!("/projects/{}/hooks", project.id);
    for address in [
        "http://127.0.0.1/",
        "http://localhost:8080/",
        "http://[::1]/",
        "http://10.1.2.3/",
        "http://192.168.0.1/",
        "http://0x7f.1/",
        "http://2130706433/",
        "http://[::ffff:10.0.0.1]/",
        "http://[64:ff9b::7f00:1]/",
    ] {
        let rejected = server.root().post(&url, json!({ "url": address })).await;
        let message = rejected.expect(422).message();
        assert!(
            message.starts_with("Invalid url given: requests to the local network are not allowed"),
            "{address}: {message}"
        );
        assert!(message.ends_with("the setting allow_local_requests_from_hooks_and_services"), "{address}: {message}");
    }
}

async fn webhooks_require_maintainer(server: TestServer) {
    let project = Project::empty(&server, "p", Visibility::Private).await;
    let url = format!("/projects/{}/hooks", project.id);
    let body = json!({ "url": "https://a.example.com/" });
    let developer = project.member("dev", AccessLevel::Developer).await;
    let maintainer = project.member("main", AccessLevel::Maintainer).await;
    let non_member = server.create_user("stranger").await.client;
    let id = hook(&maintainer, project.id, "https://a.example.com/", json!({})).await;
    let one = format!("{url}/{id}");
    for (client, status) in [(&server.anonymous(), 401), (&non_member, 404), (&developer, 403)] {
        assert_eq!(client.get(&url).await.status, status);
        assert_eq!(client.post(&url, body.clone()).await.status, status);
        assert_eq!(client.get(&one).await.status, status);
        assert_eq!(client.put(&one, body.clone()).await.status, status);
        assert_eq!(client.delete(&one).await.status, status);
    }
    let other = Project::empty(&server, "other", Visibility::Private).await;
    let elsewhere = format!("/projects/{}/hooks/{id}", other.id);
    let root = server.root();
    assert_eq!(root.get(&elsewhere).await.expect(404).message(), "404 Not found");
    assert_eq!(root.put(&elsewhere, body.clone()).await.status, 404);
    assert_eq!(root.delete(&elsewhere).await.status, 404);
    for wrong in ["x", "4711x"] {
        let wrong = format!("{url}/{wrong}");
        assert_eq!(root.get(&wrong).await.status, 400);
        assert_eq!(root.delete(&wrong).await.status, 400);
    }
    let late = maintainer.clone().header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT");
    assert_eq!(late.delete(&one).await.status, 412);
    maintainer.delete(&one).await.expect(204);
    assert_eq!(maintainer.get(&one).await.status, 404);
    project.archive().await;
    assert_eq!(maintainer.post(&url, body).await.status, 403);
}

async fn list_webhooks_is_paginated_with_constant_statement_count(server: TestServer) {
    let project = Project::empty(&server, "p", Visibility::Private).await;
    let root = server.root();
    let url = format!("/projects/{}/hooks", project.id);
    hook(&root, project.id, "https://a.example.com/", json!({})).await;
    let cost = || async {
        let before = server.statements();
        // A list that is longer than a page is also counted.
        root.get(&format!("{url}?per_page=100")).await.expect(200);
        server.statements() - before
    };
    let one = cost().await;
    for _ in 1..100 {
        hook(&root, project.id, "https://a.example.com/", json!({})).await;
    }
    assert_eq!(cost().await, one);
    let page = root.get(&format!("{url}?per_page=3&page=2")).await.expect(200);
    assert_eq!((page.pluck("id").len(), page.header("x-total")), (3, "100"));
    let rejected = root.post(&url, json!({ "url": "https://a.example.com/" })).await.expect(422);
    assert_eq!(rejected.message(), "Maximum number of project hooks (100) exceeded");
    let count = project_hooks::Entity::find().count(server.backend.database.read()).await.unwrap();
    assert_eq!(count, 100);
    // The values of all webhooks can have megabytes. Neither lists nor events read them.
    let before = server.statements();
    root.get(&format!("{url}?per_page=100")).await.expect(200);
    open(&root, project.id, json!({ "title": "t" })).await;
    let read = server.statement_texts(before);
    let read: Vec<&String> = read.iter().filter(|text| text.contains("FROM \"project_hooks\"")).collect();
    assert!(read.iter().any(|text| text.contains("\"issues_events\" = ")), "{read:?}");
    for column in ["url_variables_encrypted", "custom_headers_encrypted"] {
        let column = format!("\"project_hooks\".\"{column}\"");
        assert!(!read.iter().any(|text| text.contains(&column)), "{read:?}");
    }
}

fn create_webhook_rejects_local_addresses_by_default_options() -> holdfast::config::ConfigOptions {
    holdfast::config::ConfigOptions { allow_local_webhooks: Some(false), ..Default::default() }
}

on_every_database![
    create_webhook_returns_defaults_without_secret,
    update_webhook_changes_only_sent_attributes,
    name_description_and_branch_filter_strategy_are_stored,
    password_in_url_is_masked_and_preserved_on_update,
    create_and_update_webhook_reject_invalid_attributes,
    create_webhook_rejects_local_addresses_by_default with create_webhook_rejects_local_addresses_by_default_options(),
    webhooks_require_maintainer,
    list_webhooks_is_paginated_with_constant_statement_count,
];
