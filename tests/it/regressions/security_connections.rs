//! Clients that begin and never finish do not hold the server.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::process::{Site, on_every_site};

/// How long an answer may take at most; the server is told to take one second.
const PATIENCE: Duration = Duration::from_secs(20);

/// Announces a body that never comes whole, and gives the status line of the answer.
async fn dangle(base: &str, path: &str) -> String {
    let address = base.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/x-www-form-urlencoded\r\n\
         Content-Length: 100\r\n\r\nlogin="
    );
    stream.write_all(head.as_bytes()).await.expect("sending");
    let mut start = [0; 12];
    let answered = tokio::time::timeout(PATIENCE, stream.read_exact(&mut start)).await;
    answered.expect("an answer in time").expect("an answer");
    String::from_utf8_lossy(&start).into_owned()
}

async fn half_a_body_is_not_waited_for_longer_than_a_request_may_take(site: Site) {
    let server = site.serve(&["--request-timeout", "1"]).await;
    for path in ["/users/sign_in", "/api/v4/projects?private_token=root-token-of-the-binary"] {
        assert_eq!(dangle(&server.base, path).await, "HTTP/1.1 503", "{path}");
    }
    server.stop().await;
}

on_every_site![half_a_body_is_not_waited_for_longer_than_a_request_may_take,];
