//! `GET /version`.

use crate::support::{TestServer, on_every_database};

async fn get_version_returns_package_version(server: TestServer) {
    let response = server.root().get("/version").await;
    assert_eq!(response.status, 200);
    assert_eq!(response.json()["version"], env!("CARGO_PKG_VERSION"));
}

async fn get_version_without_token_returns_401(server: TestServer) {
    let response = server.anonymous().get("/version").await;
    assert_eq!((response.status, response.message()), (401, "401 Unauthorized".to_owned()));
}

async fn get_version_with_unknown_token_returns_401(server: TestServer) {
    let response = server.with_token("hfpat-unknown").get("/version").await;
    assert_eq!(response.status, 401);
}

on_every_database![
    get_version_returns_package_version,
    get_version_without_token_returns_401,
    get_version_with_unknown_token_returns_401,
];
