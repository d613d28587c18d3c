//! Unreadable credentials and rate limits on password attempts.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use reqwest::header::HeaderValue;
use storage::entities::Visibility;

use crate::support::users::PASSWORD;
use crate::support::{ApiResponse, TestServer, on_every_database};

/// Requests a public resource with a header that has this value.
async fn get_with_header(server: &TestServer, name: &str, value: &[u8]) -> ApiResponse {
    let value = HeaderValue::from_bytes(value).expect("a header value");
    let client = server.anonymous();
    client.send(client.request(Method::GET, "/projects").header(name, value)).await
}

async fn fetch(server: &TestServer, name: &str, password: &str) -> ApiResponse {
    let encoded = STANDARD.encode(format!("{name}:{password}"));
    let client = server.anonymous().header("authorization", &format!("Basic {encoded}"));
    let path = "//g/p.git/info/refs?service=git-upload-pack";
    client.send(client.request(Method::GET, path)).await
}

async fn token_that_is_not_text_returns_401(server: TestServer) {
    get_with_header(&server, "Private-Token", b"\xff\xfe").await.expect(401);
    get_with_header(&server, "Authorization", b"Bearer \xff").await.expect(401);
    server.anonymous().get("/projects?private_token[]=x").await.expect(401);
    server.anonymous().get("/projects?access_token[a]=x").await.expect(401);
}

async fn sudo_that_is_not_text_returns_404(server: TestServer) {
    let root = server.root();
    let unreadable = HeaderValue::from_bytes(b"\xff").expect("a header value");
    root.send(root.request(Method::GET, "/user").header("Sudo", unreadable)).await.expect(404);
    root.get("/user?sudo[]=1").await.expect(404);
}

async fn git_password_attempts_are_rate_limited(server: TestServer) {
    let ann = server.create_user("ann").await;
    server.set_password(&ann).await;
    server.insert_project_at("g/p", Visibility::Public).await;
    fetch(&server, "ann", PASSWORD).await.expect(200);
    for attempt in 0..10 {
        fetch(&server, "ann", &format!("guess {attempt}")).await.expect(401);
    }
    let rejected = fetch(&server, "ann", PASSWORD).await.expect(429);
    let wait: u64 = rejected.header("retry-after").parse().expect("seconds");
    assert!((1..=601).contains(&wait), "{wait}");
    // The client address is limited too, for any user name. A token does not count as an attempt.
    fetch(&server, "bob", "guess").await.expect(429);
    fetch(&server, "ann", &ann.token).await.expect(200);
}

on_every_database![
    token_that_is_not_text_returns_401,
    sudo_that_is_not_text_returns_404,
    git_password_attempts_are_rate_limited,
];
