//! `GET /version`.

use crate::support::{TestServer, on_every_database};

async fn the_version_is_told_to_whoever_is_signed_in(server: TestServer) {
    let answer = server.root().get("/version").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json()["version"], env!("CARGO_PKG_VERSION"));
}

async fn the_version_is_not_told_to_strangers(server: TestServer) {
    let answer = server.anonymous().get("/version").await;
    assert_eq!((answer.status, answer.message()), (401, "401 Unauthorized".to_owned()));
}

async fn an_unknown_token_is_refused(server: TestServer) {
    let answer = server.with_token("hfpat-unknown").get("/version").await;
    assert_eq!(answer.status, 401);
}

on_every_database![
    the_version_is_told_to_whoever_is_signed_in,
    the_version_is_not_told_to_strangers,
    an_unknown_token_is_refused,
];
