//! Invalidation of the response cache by every database write.

use holdfast::config::ConfigOptions;
use reqwest::Method;
use sea_orm::DatabaseBackend;
use serde_json::{Value, json};

use crate::support::Client;
use crate::support::client::http;
use crate::support::git::{Work, address};
use crate::support::process::{Site, TOKEN, on_every_site};
use crate::support::server::ROOT_TOKEN;
use crate::support::spaces::{group, join, project};
use crate::support::{TestServer, on_every_database};

async fn every_change_is_visible_in_next_response(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({})).await;
    let work = project(&root, "work", json!({"namespace_id": engines, "initialize_with_readme": true})).await;
    let ada = server.create_user("ada").await;
    let (one, raw) = (format!("/projects/{work}"), format!("/projects/{work}/repository/files/README.md/raw?ref=HEAD"));
    let get_twice = async |path: &str, status: u16| {
        ada.client.get(path).await.expect(status);
        ada.client.get(path).await.expect(status)
    };

    // Membership in the parent group.
    get_twice(&one, 404).await;
    get_twice(&raw, 404).await;
    join(&root, &format!("/groups/{engines}"), ada.id, 10).await;
    assert_eq!(get_twice(&one, 200).await.json()["permissions"]["group_access"]["access_level"], 10);
    get_twice(&raw, 403).await;
    let member = format!("/groups/{engines}/members/{}", ada.id);
    root.put(&member, json!({"access_level": 20})).await.expect(200);
    assert_eq!(get_twice(&one, 200).await.json()["permissions"]["group_access"]["access_level"], 20);
    get_twice(&raw, 200).await;

    // The project, by ID and by path.
    root.put(&one, json!({"description": "new", "path": "moved"})).await.expect(200);
    assert_eq!(get_twice(&one, 200).await.json()["description"], "new");
    assert_eq!(get_twice("/projects/engines%2Fwork", 200).await.json()["path"], "moved");
    get_twice("/projects/engines%2Fmoved", 200).await;
    let names = get_twice("/projects?membership=true&simple=true", 200).await.pluck("path");
    assert_eq!(names, ["moved"]);

    // The repository, changed through the API and by a push.
    let before = get_twice(&raw, 200).await.text();
    let content = json!({"branch": "main", "commit_message": "m", "content": "by the interface"});
    root.put(&format!("/projects/{work}/repository/files/README.md"), content).await.expect(200);
    let after = get_twice(&raw, 200).await.text();
    assert_ne!(before, after);
    assert_eq!(after, "by the interface");
    let commits = format!("/projects/{work}/repository/commits");
    assert_eq!(get_twice(&commits, 200).await.json().as_array().expect("a list").len(), 2);
    let clones = Work::empty();
    clones.git(&["clone", "--quiet", &address(&server.base, "root", ROOT_TOKEN, "engines/moved"), "c"]).await;
    let clone = clones.below("c");
    clone.commit("README.md", "by a push").await;
    clone.git(&["push", "--quiet", "origin", "HEAD:main"]).await;
    assert_eq!(get_twice(&raw, 200).await.text(), "by a push");
    assert_eq!(get_twice(&commits, 200).await.json().as_array().expect("a list").len(), 3);

    // The credentials.
    get_twice("/user", 200).await;
    root.post(&format!("/users/{}/block", ada.id), json!({})).await.expect(201);
    get_twice("/user", 403).await;
    get_twice(&raw, 403).await;
    root.post(&format!("/users/{}/unblock", ada.id), json!({})).await.expect(201);
    get_twice("/user", 200).await;
    root.delete(&member).await.expect(204);
    get_twice(&raw, 404).await;
    let token = ada.client.get("/personal_access_tokens").await.expect(200).json()[0]["id"].clone();
    root.delete(&format!("/personal_access_tokens/{token}")).await.expect(204);
    get_twice("/user", 401).await;
}

async fn cached_responses_are_not_shared_between_callers(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({"visibility": "public"})).await;
    let ada = server.create_user("ada").await;
    let narrow = server.with_token(&server.create_token(ada.id, &["read_user"]).await);
    let path = format!("/projects/{work}");
    for _ in 0..2 {
        assert!(root.get(&path).await.expect(200).json()["runners_token"].is_string());
        assert!(ada.client.get(&path).await.expect(200).json()["runners_token"].is_null());
        assert!(server.anonymous().get(&path).await.expect(200).json().get("permissions").is_none());
        narrow.get(&path).await.expect(403);
        narrow.get("/user").await.expect(200);
        server.with_token("unknown").get(&path).await.expect(401);
        let acting = server.root().header("Sudo", "ada").get("/user").await.expect(200).json();
        assert_eq!(acting["username"], "ada");
        assert_eq!(root.get("/user").await.expect(200).json()["username"], "root");
    }
}

/// Over HTTP/2, no header announces a body.
async fn response_to_request_with_body_over_http2_is_not_cached(server: TestServer) {
    let root = server.root();
    for name in ["first", "second"] {
        project(&root, name, json!({"visibility": "public"})).await;
    }
    server.finish_jobs().await;
    let client = http().http2_prior_knowledge().build().expect("a client");
    for _ in 0..2 {
        let filter = futures_util::stream::iter([Ok::<_, std::io::Error>("search=first")]);
        let request = client
            .get(format!("{}/api/v4/projects", server.base))
            .header("Content-Type", "application/x-www-form-urlencoded")
            .body(reqwest::Body::wrap_stream(filter));
        let filtered: Value = request.send().await.expect("a response").json().await.expect("JSON");
        assert_eq!(filtered.as_array().map(Vec::len), Some(1), "{filtered}");
        assert_eq!(filtered[0]["path"], "first");
        assert_eq!(server.anonymous().get("/projects").await.expect(200).pluck("path").len(), 2);
    }
}

async fn cached_raw_file_supports_ranges_and_conditional_requests(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({"initialize_with_readme": true})).await;
    let path = format!("/projects/{work}/repository/files/README.md/raw?ref=main");
    server.finish_jobs().await;
    let full = root.get(&path).await.expect(200);
    for _ in 0..2 {
        let again = root.get(&path).await.expect(200);
        assert_eq!((&again.body, again.headers.get("content-type")), (&full.body, full.headers.get("content-type")));
        let part = root.send(root.request(Method::GET, &path).header("Range", "bytes=2-4")).await.expect(206);
        assert_eq!(part.body, full.body[2..5]);
        let not_modified =
            root.send(root.request(Method::GET, &path).header("If-None-Match", full.header("etag"))).await;
        assert_eq!((not_modified.status, not_modified.body.len()), (304, 0));
        assert_eq!(not_modified.header("etag"), full.header("etag"));
    }
}

/// Returns the number of statements of a request.
async fn statements_of(server: &TestServer, client: &Client, path: &str, first: usize) -> usize {
    let before = server.statement_texts(first).len();
    client.get(path).await.expect(200);
    server.statement_texts(first).len() - before
}

async fn repeated_request_uses_no_database_statements(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({"initialize_with_readme": true})).await;
    server.finish_jobs().await;
    let paths = [
        "/projects".to_owned(),
        format!("/projects/{work}"),
        format!("/projects/{work}/repository/commits"),
        format!("/projects/{work}/repository/files/README.md/raw?ref=main"),
    ];
    for path in paths {
        let first = server.statements();
        assert!(statements_of(&server, &root, &path, first).await > 0, "{path}");
        // On PostgreSQL, a write of another test to the same server also invalidates the response.
        let requests = match server.backend.database.backend() {
            DatabaseBackend::Sqlite => 1,
            _ => 1_000,
        };
        let mut statements = usize::MAX;
        for _ in 0..requests {
            statements = statements.min(statements_of(&server, &root, &path, first).await);
            if statements == 0 {
                break;
            }
        }
        assert_eq!(statements, 0, "{path}");
    }
}

async fn repeated_request_without_cache_uses_statements(server: TestServer) {
    let root = server.root();
    let first = server.statements();
    for _ in 0..3 {
        assert!(statements_of(&server, &root, "/projects", first).await > 0);
    }
}

fn without_cache() -> ConfigOptions {
    ConfigOptions { response_cache_bytes: Some(0), ..ConfigOptions::default() }
}

/// The same changes without the cache.
async fn every_change_is_visible_without_cache(server: TestServer) {
    every_change_is_visible_in_next_response(server).await;
}

async fn responses_without_cache_are_not_shared_between_callers(server: TestServer) {
    cached_responses_are_not_shared_between_callers(server).await;
}

async fn raw_file_without_cache_supports_ranges_and_conditional_requests(server: TestServer) {
    cached_raw_file_supports_ranges_and_conditional_requests(server).await;
}

on_every_database![
    every_change_is_visible_in_next_response,
    cached_responses_are_not_shared_between_callers,
    response_to_request_with_body_over_http2_is_not_cached,
    cached_raw_file_supports_ranges_and_conditional_requests,
    repeated_request_uses_no_database_statements,
    repeated_request_without_cache_uses_statements with without_cache(),
    every_change_is_visible_without_cache with without_cache(),
    responses_without_cache_are_not_shared_between_callers with without_cache(),
    raw_file_without_cache_supports_ranges_and_conditional_requests with without_cache(),
];

async fn write_of_another_process_is_visible_in_next_response(site: Site) {
    let server = site.serve(&[]).await;
    let root = Client::new(&server.base, Some(TOKEN));
    let names = async || root.get("/users?per_page=100").await.expect(200).pluck("username").len();
    let before = names().await;
    assert_eq!(names().await, before);
    site.succeeds(&["admin", "create-user", "ada", "--email", "ada@example.com"]).await;
    assert_eq!(names().await, before + 1);
    server.stop().await;
}

on_every_site![write_of_another_process_is_visible_in_next_response,];
