//! What is refused around the registry has the form of the protocol, too.

use holdfast::config::Options;
use serde_json::json;

use super::{IMAGE, ask, assert_refused};
use crate::support::places::project;
use crate::support::server::ROOT_TOKEN;
use crate::support::wire::Wire;
use crate::support::{TestServer, on_every_database};

async fn heads_that_are_too_large_are_refused_in_the_form_of_the_protocol(server: TestServer) {
    let nobody = server.anonymous();
    let long = nobody.get(&format!("//v2/?x={}", "y".repeat(9_000))).await;
    assert_refused(&long, 414, "UNSUPPORTED");
    let large = nobody.header("X-A", &"y".repeat(40_000));
    for path in ["//v2/", "//v2/root/work/manifests/latest", "//jwt/auth"] {
        assert_refused(&large.get(path).await, 431, "UNSUPPORTED");
    }
}

async fn whoever_takes_too_long_is_told_in_the_form_of_the_protocol(server: TestServer) {
    project(&server.root(), "work", json!({})).await;
    let scope = ["repository:root/work:pull,push"];
    let token = ask(&server.base, Some(("root", ROOT_TOKEN)), &scope).await.expect(200).json();
    let head = format!(
        "PUT /v2/root/work/manifests/v1 HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {}\r\n\
         Content-Type: {IMAGE}\r\nContent-Length: 100\r\n\r\n{{",
        token["token"].as_str().expect("a token"),
    );
    let mut wire = Wire::connect(&server.base).await;
    wire.send(head).await;
    assert_refused(&wire.answer().await.into(), 503, "UNAVAILABLE");
}

fn whoever_takes_too_long_is_told_in_the_form_of_the_protocol_options() -> Options {
    Options { request_timeout: Some(1), ..Options::default() }
}

on_every_database![
    heads_that_are_too_large_are_refused_in_the_form_of_the_protocol,
    whoever_takes_too_long_is_told_in_the_form_of_the_protocol with whoever_takes_too_long_is_told_in_the_form_of_the_protocol_options(),
];
