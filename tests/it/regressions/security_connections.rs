//! Slow clients: requests with incomplete bodies.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::process::{Site, on_every_site};

/// Maximum time for a response; the request timeout of the server is one second.
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// Sends a request with an incomplete body and returns the start of the status line of the response.
async fn send_incomplete_body(base: &str, path: &str) -> String {
    let address = base.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/x-www-form-urlencoded\r\n\
         Content-Length: 100\r\n\r\nlogin="
    );
    stream.write_all(head.as_bytes()).await.expect("sending");
    let mut start = [0; 12];
    let answered = tokio::time::timeout(TIME_LIMIT, stream.read_exact(&mut start)).await;
    answered.expect("a response in time").expect("a response");
    String::from_utf8_lossy(&start).into_owned()
}

async fn incomplete_body_returns_503_after_request_timeout(site: Site) {
    let server = site.serve(&["--request-timeout", "1"]).await;
    for path in ["/users/sign_in", "/api/v4/projects?private_token=root-token-of-the-binary"] {
        assert_eq!(send_incomplete_body(&server.base, path).await, "HTTP/1.1 503", "{path}");
    }
    server.stop().await;
}

on_every_site![incomplete_body_returns_503_after_request_timeout,];
