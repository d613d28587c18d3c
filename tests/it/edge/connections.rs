//! Handling of connections: malformed and oversized headers, slow clients, connection limits.

use holdfast::config::ConfigOptions;

use crate::support::raw_http::{RawConnection, exchange};
use crate::support::{DatabaseKind, TestServer, on_every_database};

const TARGET: &str = "/api/v4/version";

fn get(target: &str, fields: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{fields}\r\n")
}

/// Returns the head of a request with a content length.
fn post(target: &str, length: usize) -> String {
    format!("POST {target} HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n")
}

async fn server(options: ConfigOptions) -> TestServer {
    TestServer::start_with(DatabaseKind::Sqlite, options).await
}

async fn malformed_request_returns_400_in_json(server: TestServer) {
    for text in [
        "GET /api/v4/version\r\n\r\n",
        "GET /api/v4/ver sion HTTP/1.1\r\n\r\n",
        "G\x01T /api/v4/version HTTP/1.1\r\n\r\n",
        "GET /api/v4/version HTTP/3.9\r\n\r\n",
        "GET /api/v4/version HTTP/1.1\r\nHost h\r\n\r\n",
        "POST /api/v4/projects HTTP/1.1\r\nHost: h\r\nContent-Length: x\r\n\r\n",
        "GET http://[/api/v4/version HTTP/1.1\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01\x00\x01\r\n\r\n",
    ] {
        let response = exchange(&server.base, text).await;
        assert_eq!(response.status, 400, "{text:?}");
        assert_eq!(response.message(), "400 Bad Request - the request is not valid HTTP", "{text:?}");
        assert_eq!(response.headers["connection"], "close");
        assert_eq!(response.headers["x-frame-options"], "SAMEORIGIN");
    }
}

async fn malformed_request_is_answered_after_earlier_requests(server: TestServer) {
    let mut wire = RawConnection::connect(&server.base).await;
    wire.send(format!("GET {TARGET}?private_token=x HTTP/1.1\r\nHost: h\r\n\r\nnonsense\r\n\r\n")).await;
    assert_eq!(wire.response().await.status, 401);
    assert_eq!(wire.response().await.status, 400);
    wire.expect_closed().await;
}

async fn small_unread_body_keeps_connection_open(server: TestServer) {
    let mut wire = RawConnection::connect(&server.base).await;
    for (target, status) in [("/api/v4/projects/1/issues/1/notes", 401), ("/nothing", 404), ("/api/v4/nothing", 404)] {
        // The body is sent after the server has decided on the response.
        wire.send(post(target, 13)).await;
        server.root().get("/version").await.expect(200);
        wire.send("{\"body\": \"x\"}").await;
        let response = wire.response().await;
        assert_eq!((response.status, response.headers.get("connection")), (status, None), "{target}");
    }
    wire.send(get(TARGET, "")).await;
    assert_eq!(wire.response().await.status, 401);
}

async fn missing_or_large_unread_body_closes_connection(server: TestServer) {
    for (head, body) in [
        (post("/api/v4/projects/1/issues/1/notes", 13), ""),
        (post("/nothing", 13), "{\"body\":"),
        (post("/nothing", 100_000), ""),
        (post("/nothing", 13).replace("\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n"), ""),
    ] {
        let mut wire = RawConnection::connect(&server.base).await;
        wire.send(format!("{head}{body}")).await;
        let response = wire.response().await;
        assert!(matches!(response.status, 401 | 404), "{head}");
        assert_eq!(response.headers.get("connection").map(String::as_str), Some("close"), "{head}");
        wire.expect_closed().await;
    }
}

async fn long_targets_return_414_or_431_in_json(server: TestServer) {
    let query = |length: usize| get(&format!("{TARGET}?x={}", "y".repeat(length)), "");
    assert_eq!(exchange(&server.base, query(8_000)).await.status, 401);
    for length in [9_000, 20_000, 60_000, 70_000, 1 << 20] {
        let response = exchange(&server.base, query(length)).await;
        assert!(matches!(response.status, 414 | 431), "{length}: {}", response.status);
        assert!(response.message().starts_with("4"), "{length}");
    }
    let path = get(&format!("/api/v4/projects/{}", "p".repeat(17_000)), "");
    let response = exchange(&server.base, path).await;
    assert_eq!(
        (response.status, response.message().as_str()),
        (414, "414 URI Too Long - path and query are too long (maximum is 16384 bytes)")
    );
}

async fn long_query_limits_link_header(server: TestServer) {
    server.create_user("ada").await;
    let response = server.root().get(&format!("/users?per_page=1&x={}", "y".repeat(8_000))).await.expect(200);
    let link = response.header("link");
    assert!(link.ends_with("rel=\"next\"") && link.matches("rel=").count() == 1 && link.len() < 9_000, "{link}");
    let next = link.trim_start_matches(&format!("<{}", server.base)).split('>').next().expect("an address");
    server.root().get(&format!("/{next}")).await.expect(200);
}

async fn oversized_headers_return_431_in_json(server: TestServer) {
    let large = |length: usize| get(TARGET, &format!("X-A: {}\r\n", "y".repeat(length)));
    let many = |count: usize| get(TARGET, &"X-A: y\r\n".repeat(count));
    assert_eq!(exchange(&server.base, large(30_000)).await.status, 401);
    assert_eq!(exchange(&server.base, many(90)).await.status, 401);
    for text in [large(40_000), large(100_000), large(10 << 20), many(99), many(2_000)] {
        let response = exchange(&server.base, text).await;
        assert_eq!(response.status, 431);
        assert!(response.message().starts_with("431 Request Header Fields Too Large - "));
    }
}

async fn millions_of_tiny_chunks_are_rejected(server: TestServer) {
    let head = "POST /api/v4/projects?private_token=root-token-of-the-tests HTTP/1.1\r\nHost: h\r\n\
                Content-Type: application/json\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
    let body = "1\r\n \r\n".repeat(4_000_000);
    let began = std::time::Instant::now();
    let response = exchange(&server.base, format!("{head}{body}0\r\n\r\n")).await;
    assert_eq!(response.status, 400);
    assert_eq!(response.message(), "the body was sent in too many small chunks");
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
}

async fn body_in_many_small_chunks_is_accepted(server: TestServer) {
    let head = "POST /api/v4/projects?private_token=root-token-of-the-tests HTTP/1.1\r\nHost: h\r\n\
                Content-Type: application/json\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunks: String = r#"{"name": "tiny", "path": "tiny"}"#.chars().map(|c| format!("1\r\n{c}\r\n")).collect();
    let body = "1\r\n \r\n".repeat(50_000);
    let response = exchange(&server.base, format!("{head}{chunks}{body}0\r\n\r\n")).await;
    assert_eq!(response.status, 201, "{}", String::from_utf8_lossy(&response.body));
}

async fn http2_without_tls_is_supported(server: TestServer) {
    let client = crate::support::client::http().http2_prior_knowledge().build().expect("a client");
    let response = client.get(format!("{}{TARGET}", server.base)).send().await.expect("a response");
    assert_eq!((response.status().as_u16(), response.version()), (401, reqwest::Version::HTTP_2));
    let long = format!("{}{TARGET}?x={}", server.base, "y".repeat(9_000));
    let response = client.get(long).send().await.expect("a response");
    assert_eq!(response.status().as_u16(), 414);
}

on_every_database![
    malformed_request_returns_400_in_json,
    malformed_request_is_answered_after_earlier_requests,
    small_unread_body_keeps_connection_open,
    missing_or_large_unread_body_closes_connection,
    long_targets_return_414_or_431_in_json,
    long_query_limits_link_header,
    oversized_headers_return_431_in_json,
    millions_of_tiny_chunks_are_rejected,
    body_in_many_small_chunks_is_accepted,
    http2_without_tls_is_supported,
];

async fn incomplete_head_returns_408() {
    let server = server(ConfigOptions { idle_timeout: Some(1), ..ConfigOptions::default() }).await;
    let mut wire = RawConnection::connect(&server.base).await;
    wire.send("GET /api/v4/version HTTP/1.1\r\nHos").await;
    let response = wire.response().await;
    assert_eq!(response.status, 408);
    assert_eq!(response.message(), "408 Request Timeout - the header of the request was not received in time");
    wire.expect_closed().await;
    server.stop().await;
}

async fn idle_connections_are_closed_without_response() {
    let server = server(ConfigOptions { idle_timeout: Some(1), ..ConfigOptions::default() }).await;
    let mut fresh = RawConnection::connect(&server.base).await;
    let mut used = RawConnection::connect(&server.base).await;
    used.send(format!("GET {TARGET} HTTP/1.1\r\nHost: h\r\n\r\n")).await;
    assert_eq!(used.response().await.status, 401);
    fresh.expect_closed().await;
    used.expect_closed().await;
    server.stop().await;
}

async fn connections_beyond_the_limit_wait() {
    let server = server(ConfigOptions { max_connections: Some(2), ..ConfigOptions::default() }).await;
    let mut open = Vec::new();
    for _ in 0..2 {
        let mut wire = RawConnection::connect(&server.base).await;
        wire.send(format!("GET {TARGET} HTTP/1.1\r\nHost: h\r\n\r\n")).await;
        assert_eq!(wire.response().await.status, 401);
        open.push(wire);
    }
    let mut waiting = RawConnection::connect(&server.base).await;
    waiting.send(get(TARGET, "")).await;
    let early = tokio::time::timeout(std::time::Duration::from_millis(300), waiting.stream.readable()).await;
    assert!(early.is_err(), "a third connection was served");
    open.pop();
    assert_eq!(waiting.response().await.status, 401);
    drop(open);
    server.stop().await;
}

harness::tests![
    incomplete_head_returns_408,
    idle_connections_are_closed_without_response,
    connections_beyond_the_limit_wait,
];
