//! Limits on requests per minute: clients that count separately, headers, and paths.

use boon::Draft;
use contract::document::{Extent, Format, Version, document_text};
use holdfast::config::ConfigOptions;
use reqwest::Method;
use serde_json::{Value, json};
use storage::entities::Visibility;

use crate::identity::deploy_tokens::{credentials, deploy_token};
use crate::registry::registry_protocol::{basic, request_token};
use crate::spaces::scim::{Provider, rejection};
use crate::support::client::http;
use crate::support::schemas::CompiledSchemas;
use crate::support::server::ROOT_TOKEN;
use crate::support::{ApiResponse, Client, TestServer, on_every_database};

const HEADERS: [&str; 3] = ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"];

/// Limits so low that no bucket refills a request during a test: one takes 15 seconds or more.
fn limited() -> ConfigOptions {
    ConfigOptions {
        requests_per_minute_per_user: Some(4),
        requests_per_minute_per_address: Some(3),
        ..ConfigOptions::default()
    }
}

fn number(response: &ApiResponse, name: &str) -> u64 {
    response.header(name).parse().unwrap_or_else(|_| panic!("{name} of {}", response.status))
}

/// Sends a request until it is refused. Returns the number of requests before.
async fn permitted(client: &Client, path: &str) -> u64 {
    for sent in 0..9 {
        let response = client.get(path).await;
        if response.status == 429 {
            assert!((1..=20).contains(&number(&response, "retry-after")), "{}", response.header("retry-after"));
            assert_eq!(number(&response, "ratelimit-remaining"), 0);
            return sent;
        }
    }
    panic!("{path} was never refused");
}

async fn users_and_addresses_are_limited_separately(server: TestServer) {
    let (ada, bob) = (server.create_user("ada").await, server.create_user("bob").await);
    assert_eq!(permitted(&ada.client, "/user").await, 4);
    assert_eq!(permitted(&server.anonymous(), "/projects").await, 3);
    // Another token of the user, and unknown tokens of the address, do not help.
    let again = server.with_token(&server.create_token(ada.id, &["api"]).await);
    let refused = again.get("/projects").await.expect(429).json();
    assert_eq!(refused["setting"], "requests_per_minute_per_user");
    let refused = server.with_token("unknown").get("/projects").await.expect(429).json();
    assert_eq!(refused["setting"], "requests_per_minute_per_address");
    assert_eq!(server.anonymous().get("/user").await.status, 429);
    // Other users at the address are not affected.
    let response = bob.client.get("/user").await.expect(200);
    assert_eq!((number(&response, "ratelimit-limit"), number(&response, "ratelimit-remaining")), (4, 3));
    let (users, addresses) = server.backend.budgets.requests.refused();
    assert!(users >= 2 && addresses >= 3, "{users} {addresses}");
}

async fn refused_request_changes_nothing(server: TestServer) {
    let root = server.root();
    permitted(&root, "/user").await;
    root.post("/projects", json!({"name": "late"})).await.expect(429);
    assert_eq!(server.anonymous().get("/projects/root%2Flate").await.status, 404);
}

/// The document in OpenAPI 3.1 lists the types of `message`; in 3.0, the attribute has no type.
async fn refused_request_has_documented_body(server: TestServer) {
    let root = server.root();
    permitted(&root, "/user").await;
    let refused = root.get("/user").await.expect(429).json();
    assert!(refused["message"]["error"].is_string(), "{refused}");
    let text = document_text(Version::V3_1, Extent::Complete, Format::Json).expect("a document");
    let document: Value = serde_json::from_str(&text).expect("JSON");
    let response = &document["components"]["responses"]["TooManyRequests"]["content"]["application/json"];
    let schemas = CompiledSchemas::new(Draft::V2020_12, &document["components"], vec![response["schema"].clone()]);
    for body in [&refused, &response["example"]] {
        assert_eq!(schemas.validate(0, body), Ok(()));
        assert!(body["message"].is_object(), "{body}");
    }
}

async fn sudo_counts_for_the_administrator(server: TestServer) {
    let ada = server.create_user("ada").await;
    permitted(&server.root().header("Sudo", "ada"), "/user").await;
    assert_eq!(server.root().get("/user").await.status, 429);
    ada.client.get("/user").await.expect(200);
}

async fn identity_provider_is_limited_like_a_user(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    let path = format!("{}/Users", provider.base);
    assert_eq!(permitted(&provider.client, &path).await, 4);
    let refused = provider.get("/Users").await;
    assert_eq!(rejection(&refused).0, 429);
    server.anonymous().get("/projects").await.expect(200);
}

async fn deploy_token_is_limited_like_a_user(server: TestServer) {
    let project = server.insert_project_at("g/p", Visibility::Private).await;
    let path = format!("/projects/{}", project.id);
    let created = deploy_token(&server.root(), &path, &["read_repository"]).await;
    let (name, token) = credentials(&created);
    let client = server.anonymous().header("Authorization", &basic(name, token));
    assert_eq!(permitted(&client, "//g/p.git/info/refs?service=git-upload-pack").await, 4);
    // The token and an address count separately.
    server.anonymous().get("/projects").await.expect(200);
}

async fn every_response_has_headers_of_its_own_request(server: TestServer) {
    let (root, ada) = (server.root(), server.create_user("ada").await);
    let first = root.get("/version").await.expect(200);
    let now = chrono::Utc::now().timestamp().unsigned_abs();
    assert_eq!((number(&first, "ratelimit-limit"), number(&first, "ratelimit-remaining")), (4, 3));
    assert!((now..=now + 16).contains(&number(&first, "ratelimit-reset")), "{}", first.header("ratelimit-reset"));
    assert!(!first.headers.contains_key("retry-after"));
    // The same response from the cache, 304, errors, and a path without an operation.
    let repeated = root.get("/version").await.expect(200);
    assert_eq!(repeated.header("etag"), first.header("etag"));
    assert_eq!(number(&repeated, "ratelimit-remaining"), 2);
    let current = root.clone().header("If-None-Match", first.header("etag")).get("/version").await.expect(304);
    assert_eq!(number(&current, "ratelimit-remaining"), 1);
    assert!(number(&current, "ratelimit-reset") >= number(&first, "ratelimit-reset"));
    for (path, status) in [("/projects/404", 404), ("/projects?per_page=x", 400)] {
        let response = ada.client.get(path).await.expect(status);
        assert_eq!(number(&response, "ratelimit-limit"), 4, "{path}");
    }
    let anonymous = server.anonymous();
    for path in ["/no/such/path", "/user", "//docs", "//users/sign_in", "//v2/"] {
        assert_eq!(number(&anonymous.get(path).await, "ratelimit-limit"), 3, "{path}");
    }
}

async fn probes_and_metrics_are_exempt(server: TestServer) {
    let anonymous = server.anonymous();
    permitted(&anonymous, "/projects").await;
    for path in ["//-/liveness", "//-/readiness", "//-/health", "//-/metrics"] {
        let response = anonymous.get(path).await.expect(200);
        assert!(HEADERS.iter().all(|name| !response.headers.contains_key(*name)), "{path}");
    }
}

async fn pages_and_oauth_are_limited_by_address(server: TestServer) {
    let anonymous = server.anonymous();
    permitted(&anonymous, "/projects").await;
    for path in [
        "//docs",
        "//users/sign_in",
        "//users/sign_in/code",
        "//users/two_factor",
        "//root.keys",
        "//root.gpg",
        "//oauth/token/info",
        "//-/session",
        "/openapi.json",
    ] {
        let response = anonymous.get(path).await;
        assert_eq!(response.status, 429, "{path}");
        assert!(number(&response, "retry-after") >= 1, "{path}");
    }
    let issued = anonymous.request(Method::POST, "//oauth/token").form(&[("grant_type", "refresh_token")]);
    assert_eq!(anonymous.send(issued).await.status, 429);
    for path in ["sign_in/code", "two_factor", "two_factor/confirm", "two_factor/recovery_codes", "two_factor/disable"]
    {
        let sent = anonymous.request(Method::POST, &format!("//users/{path}")).form(&[("code", "000000")]);
        assert_eq!(anonymous.send(sent).await.status, 429, "{path}");
    }
}

async fn git_and_registry_are_limited_by_caller(server: TestServer) {
    server.insert_project_at("g/p", Visibility::Public).await;
    let refs = "//g/p.git/info/refs?service=git-upload-pack";
    let with_password = server.anonymous().header("Authorization", &basic("root", ROOT_TOKEN));
    let response = with_password.get(refs).await.expect(200);
    assert_eq!(number(&response, "ratelimit-limit"), 4);
    let token = request_token(&server.base, Some(("root", ROOT_TOKEN)), &[]).await.expect(200);
    let token = token.json()["token"].as_str().expect("a token").to_owned();
    let registry = server.anonymous().header("Authorization", &format!("Bearer {token}"));
    permitted(&registry, "//v2/").await;
    assert_eq!(with_password.get(refs).await.status, 429);
    let refused = registry.get("//v2/g/p/tags/list").await.expect(429);
    assert_eq!(refused.json()["errors"][0]["code"], "TOOMANYREQUESTS");
    assert!(number(&refused, "retry-after") >= 1);
    assert_eq!(request_token(&server.base, Some(("root", ROOT_TOKEN)), &[]).await.status, 429);
    // Anonymous clients have the limit of their address.
    let anonymous = server.anonymous();
    anonymous.get(refs).await.expect(200);
    permitted(&anonymous, refs).await;
    let refused = anonymous.get(refs).await;
    assert!(refused.header("content-type").starts_with("text/plain"));
    assert_eq!(anonymous.get("//v2/").await.status, 429);
}

on_every_database![
    users_and_addresses_are_limited_separately with limited(),
    refused_request_changes_nothing with limited(),
    refused_request_has_documented_body with limited(),
    sudo_counts_for_the_administrator with limited(),
    identity_provider_is_limited_like_a_user with limited(),
    deploy_token_is_limited_like_a_user with limited(),
    every_response_has_headers_of_its_own_request with limited(),
    probes_and_metrics_are_exempt with limited(),
    pages_and_oauth_are_limited_by_address with limited(),
    git_and_registry_are_limited_by_caller with limited(),
];

fn behind_a_proxy() -> ConfigOptions {
    ConfigOptions { trusted_proxies: Some(vec!["127.0.0.1".to_owned()]), ..limited() }
}

async fn clients_behind_trusted_proxy_have_separate_limits(server: TestServer) {
    server.insert_project_at("g/p", Visibility::Public).await;
    let at = |address: &str| server.anonymous().header("X-Forwarded-For", address);
    permitted(&at("203.0.113.1"), "/projects").await;
    assert_eq!(at("198.51.100.9, 203.0.113.1").get("/projects").await.status, 429);
    at("203.0.113.2").get("/projects").await.expect(200);
    // The addresses of one IPv6 network belong to one client.
    permitted(&at("2001:db8::1"), "/projects").await;
    assert_eq!(at("2001:db8::ffff:2").get("/projects").await.status, 429);
    at("2001:db8:0:1::1").get("/projects").await.expect(200);
    // Without a trusted proxy, the header has no effect.
    let direct = http().local_address("127.0.0.10".parse::<std::net::IpAddr>().ok()).build().expect("a client");
    let mut statuses = Vec::new();
    for number in 0..10 {
        let request = direct.get(format!("{}/api/v4/projects", server.base));
        let request = request.header("X-Forwarded-For", format!("203.0.113.1{number}"));
        statuses.push(request.send().await.expect("a response").status().as_u16());
    }
    assert_eq!(statuses[9], 429, "{statuses:?}");
}

fn unlimited() -> ConfigOptions {
    ConfigOptions {
        requests_per_minute_per_user: Some(0),
        requests_per_minute_per_address: Some(0),
        ..ConfigOptions::default()
    }
}

async fn disabled_limits_send_no_headers(server: TestServer) {
    for client in [server.root(), server.anonymous()] {
        for path in ["/projects", "/no/such/path", "//docs", "//v2/"] {
            let response = client.get(path).await;
            assert!(HEADERS.iter().all(|name| !response.headers.contains_key(*name)), "{path}");
        }
    }
}

on_every_database![
    clients_behind_trusted_proxy_have_separate_limits with behind_a_proxy(),
    disabled_limits_send_no_headers with unlimited(),
];
