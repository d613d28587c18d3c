//! Requests of web pages of other origins, and the setting `cors_origins`.

use std::collections::BTreeSet;

use holdfast::config::ConfigOptions;
use reqwest::Method;
use serde_json::json;

use crate::support::contract::{DOCUMENT, deref};
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
    let mut values = response.headers.get_all(header).iter();
    values.any(|value| value.to_str().expect("a text header").split(", ").any(|listed| listed == entry))
}

/// Returns the headers of requests and of responses in the contract.
fn documented_headers() -> [BTreeSet<&'static str>; 2] {
    let (mut requests, mut responses) = (BTreeSet::new(), BTreeSet::new());
    let schemes = DOCUMENT["components"]["securitySchemes"].as_object().expect("schemes").values();
    let paths = DOCUMENT["paths"].as_object().expect("paths").values();
    let operations = paths.flat_map(|path| path.as_object().expect("a path").values());
    let (mut parameters, mut headers) = (Vec::new(), Vec::new());
    for operation in operations {
        // Parameters of a path are an array.
        parameters.extend(operation.as_array().or_else(|| operation["parameters"].as_array()).into_iter().flatten());
        let documented = operation["responses"].as_object().into_iter().flat_map(|responses| responses.values());
        headers.extend(documented.filter_map(|response| deref(response)["headers"].as_object()));
    }
    for parameter in parameters.into_iter().map(deref).chain(schemes) {
        if parameter["in"] == "header" {
            requests.insert(parameter["name"].as_str().expect("a name"));
        }
    }
    responses.extend(headers.into_iter().flat_map(|headers| headers.keys().map(String::as_str)));
    [requests, responses]
}

async fn preflight_of_allowed_origin_lists_methods_and_headers(server: TestServer) {
    let page = server.anonymous().header("Origin", PAGE);
    for path in ["/projects/1", "/no/such/path"] {
        let response = preflight(&page, path).await.expect(204);
        assert_eq!(response.header("access-control-allow-origin"), PAGE, "{path}");
        for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] {
            assert!(lists(&response, "access-control-allow-methods", method), "{method}");
        }
        let [documented, _] = documented_headers();
        assert!(documented.contains("Private-Token") && documented.contains("If-Range"), "{documented:?}");
        for name in documented.into_iter().chain(["Authorization", "Content-Type"]) {
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
        let [_, documented] = documented_headers();
        assert!(documented.contains("X-Total") && documented.contains("Location"), "{documented:?}");
        // Every page can read Cache-Control (Fetch standard).
        for name in documented.into_iter().chain(["X-Request-Id"]).filter(|name| *name != "Cache-Control") {
            assert!(lists(&response, "access-control-expose-headers", name), "{name}");
        }
    }
    let document = root.clone().header("Accept-Encoding", "gzip").get("//api/v4/openapi.json").await.expect(200);
    assert!(lists(&document, "vary", "Origin"));
    // An OPTIONS request that is not a preflight request is processed like any other.
    root.send(root.request(Method::OPTIONS, "/projects")).await.expect(405);
}

async fn copies_of_headers_are_exposed_with_compat(server: TestServer) {
    let response = server.root().header("Origin", PAGE).get("/version").await.expect(200);
    assert!(lists(&response, "access-control-expose-headers", "X-Service-Blob-Id"));
    assert!(lists(&response, "access-control-expose-headers", "X-Gitlab-Blob-Id"));
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
    copies_of_headers_are_exposed_with_compat with ConfigOptions { compat: Some(true), ..origins(&[PAGE]) },
    cached_response_has_headers_of_its_own_request with origins(&[PAGE]),
    other_origins_and_paths_have_no_headers with origins(&[PAGE]),
    without_setting_no_origin_is_allowed,
    asterisk_allows_every_origin with origins(&["*"]),
    response_above_rate_limit_has_headers with limited(),
];
