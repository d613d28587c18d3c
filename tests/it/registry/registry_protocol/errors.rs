//! Errors raised before routing also use the error format of the protocol.

use holdfast::config::ConfigOptions;
use serde_json::json;

use super::{IMAGE, assert_refused, request_token};
use crate::support::raw_http::RawConnection;
use crate::support::server::ROOT_TOKEN;
use crate::support::spaces::project;
use crate::support::{TestServer, on_every_database};

async fn oversized_request_heads_return_registry_errors(server: TestServer) {
    let anonymous = server.anonymous();
    let long = anonymous.get(&format!("//v2/?x={}", "y".repeat(9_000))).await;
    assert_refused(&long, 414, "UNSUPPORTED");
    let large = anonymous.header("X-A", &"y".repeat(40_000));
    for path in ["//v2/", "//v2/root/work/manifests/latest", "//jwt/auth"] {
        assert_refused(&large.get(path).await, 431, "UNSUPPORTED");
    }
}

async fn request_timeout_returns_registry_error(server: TestServer) {
    project(&server.root(), "work", json!({})).await;
    let scope = ["repository:root/work:pull,push"];
    let token = request_token(&server.base, Some(("root", ROOT_TOKEN)), &scope).await.expect(200).json();
    let head = format!(
        "PUT /v2/root/work/manifests/v1 HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {}\r\n\
         Content-Type: {IMAGE}\r\nContent-Length: 100\r\n\r\n{{",
        token["token"].as_str().expect("a token"),
    );
    let mut connection = RawConnection::connect(&server.base).await;
    connection.send(head).await;
    assert_refused(&connection.response().await.into(), 503, "UNAVAILABLE");
}

fn request_timeout_returns_registry_error_options() -> ConfigOptions {
    ConfigOptions { request_timeout: Some(1), ..ConfigOptions::default() }
}

on_every_database![
    oversized_request_heads_return_registry_errors,
    request_timeout_returns_registry_error with request_timeout_returns_registry_error_options(),
];
