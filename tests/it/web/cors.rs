//! Requests of web pages of other origins, and the setting `cors_origins`.

use holdfast::config::ConfigOptions;
use reqwest::Method;
use serde_json::json;

use crate::support::{ApiResponse, Client, TestServer, on_every_database};

const PAGE: &str = "https://app.example";

fn origins(origins: &[&str]) -> ConfigOptions {
    let origins = origins.iter().map(|origin| (*origin).to_owned()).collect();
    ConfigOptions { cors_origins: Some(origins), ..ConfigOptions::default() }
}

/// Returns the response to a preflight request.
async fn preflight(client: &Client, path: &str) -> ApiResponse {
    let asked = client.request(Method::OPTIONS, path);
    let asked = asked.header("access-control-request-method", "PUT");
    client.send(asked.header("access-control-request-headers", "private-token,content-type")).await
}

fn is_open(response: &ApiResponse) -> bool {
    response.headers.keys().any(|name| name.as_str().starts_with("access-control-"))
}

/// Returns whether a list of a header has an entry.
fn lists(response: &ApiResponse, header: &str, entry: &str) -> bool {
    response.header(header).split(", ").any(|listed| listed == entry)
}

async fn preflight_of_allowed_origin_lists_methods_and_headers(server: TestServer) {
    let page = server.anonymous().header("Origin", PAGE);
    for path in ["/projects/1", "/no/such/path"] {
        let response = preflight(&page, path).await.expect(204);
        assert_eq!(response.header("access-control-allow-origin"), PAGE, "{path}");
        for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] {
            assert!(lists(&response, "access-control-allow-methods", method), "{method}");
        }
        for name in ["Authorization", "Private-Token", "Job-Token", "Content-Type", "Sudo"] {
            assert!(lists(&response, "access-control-allow-headers", name), "{name}");
        }
        assert_eq!(response.header("access-control-max-age"), "7200", "{path}");
        assert_eq!(response.header("vary"), "Origin", "{path}");
    }
}

async fn responses_to_allowed_origin_expose_headers_and_no_credentials(server: TestServer) {
    let root = server.root().header("Origin", PAGE);
    root.post("/projects", json!({"name": "open"})).await.expect(201);
    for (path, status) in [("/projects", 200), ("/projects?per_page=x", 400), ("/projects/404", 404)] {
        let response = root.get(path).await.expect(status);
        assert_eq!(response.header("access-control-allow-origin"), PAGE, "{path}");
        assert!(!response.headers.contains_key("access-control-allow-credentials"), "{path}");
        for name in ["Link", "X-Total", "X-Next-Page", "RateLimit-Remaining", "Retry-After", "X-Request-Id", "ETag"] {
            assert!(lists(&response, "access-control-expose-headers", name), "{name}");
        }
    }
    // An OPTIONS request that is not a preflight request is processed like any other.
    root.send(root.request(Method::OPTIONS, "/projects")).await.expect(405);
}

async fn cached_response_has_headers_of_its_own_request(server: TestServer) {
    let (root, page) = (server.root(), server.root().header("Origin", PAGE));
    assert!(!is_open(&root.get("/projects").await.expect(200)));
    assert!(is_open(&page.get("/projects").await.expect(200)));
    assert!(!is_open(&root.get("/projects").await.expect(200)));
}

async fn other_origins_and_paths_have_no_headers(server: TestServer) {
    for origin in ["https://app.example.evil.example", "http://app.example", "https://app.example:8443", "null"] {
        let page = server.root().header("Origin", origin);
        assert!(!is_open(&page.get("/projects").await.expect(200)), "{origin}");
        assert!(!is_open(&preflight(&page, "/projects").await.expect(405)), "{origin}");
    }
    let page = server.anonymous().header("Origin", PAGE);
    for path in ["//users/sign_in", "//oauth/token/info", "//-/liveness", "//docs"] {
        assert!(!is_open(&page.get(path).await), "{path}");
    }
    assert!(!is_open(&server.root().get("/projects").await.expect(200)));
}

async fn without_setting_no_origin_is_allowed(server: TestServer) {
    let page = server.root().header("Origin", PAGE);
    assert!(!is_open(&page.get("/projects").await.expect(200)));
    assert!(!is_open(&preflight(&page, "/projects").await.expect(405)));
}

async fn asterisk_allows_every_origin(server: TestServer) {
    let page = server.root().header("Origin", "http://localhost:3000");
    let response = page.get("/version").await.expect(200);
    assert_eq!(response.header("access-control-allow-origin"), "http://localhost:3000");
    preflight(&page, "/projects").await.expect(204);
}

async fn response_above_rate_limit_has_headers(server: TestServer) {
    let page = server.root().header("Origin", PAGE);
    page.get("/user").await.expect(200);
    let refused = page.get("/user").await.expect(429);
    assert_eq!(refused.header("access-control-allow-origin"), PAGE);
    // Preflight requests are not counted.
    preflight(&page, "/user").await.expect(204);
}

fn limited() -> ConfigOptions {
    ConfigOptions { requests_per_minute_per_user: Some(1), ..origins(&[PAGE]) }
}

on_every_database![
    preflight_of_allowed_origin_lists_methods_and_headers with origins(&[PAGE]),
    responses_to_allowed_origin_expose_headers_and_no_credentials with origins(&["http://localhost:3000", PAGE]),
    cached_response_has_headers_of_its_own_request with origins(&[PAGE]),
    other_origins_and_paths_have_no_headers with origins(&[PAGE]),
    without_setting_no_origin_is_allowed,
    asterisk_allows_every_origin with origins(&["*"]),
    response_above_rate_limit_has_headers with limited(),
];
