//! RawResponse HTTP connections, for requests that client libraries do not send.

use std::collections::HashMap;
use std::time::Duration;

use reqwest::header::HeaderName;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::ApiResponse;

/// Time limit of each step.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// A connection.
pub struct RawConnection {
    /// Stream of the connection.
    pub stream: TcpStream,
    read: Vec<u8>,
}

/// A response read from the connection.
#[derive(Debug)]
pub struct RawResponse {
    /// Status code.
    pub status: u16,
    /// Headers by lower-case name.
    pub headers: HashMap<String, String>,
    /// Body.
    pub body: Vec<u8>,
}

impl RawResponse {
    /// Returns the error message. The response must be JSON with a request ID.
    pub fn message(&self) -> String {
        assert_eq!(self.headers["content-type"], "application/json");
        assert!(self.headers.contains_key("x-request-id"), "{:?}", self.headers);
        let body: Value = serde_json::from_slice(&self.body).expect("JSON");
        body["message"].as_str().expect("a message").to_owned()
    }
}

impl From<RawResponse> for ApiResponse {
    fn from(raw: RawResponse) -> Self {
        let headers = raw.headers.iter().map(|(name, value)| {
            let name: HeaderName = name.parse().expect("a name");
            (name, value.parse().expect("a value"))
        });
        Self { status: raw.status, headers: headers.collect(), body: raw.body }
    }
}

impl RawConnection {
    /// Connects to a server at `http://host:port`.
    pub async fn connect(base: &str) -> Self {
        let address = base.trim_start_matches("http://");
        Self { stream: TcpStream::connect(address).await.expect("a connection"), read: Vec::new() }
    }

    /// Sends bytes. Write errors are ignored, because the server may stop reading.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref()).await;
    }

    /// Reads one response with a `content-length`.
    pub async fn response(&mut self) -> RawResponse {
        tokio::time::timeout(TIME_LIMIT, self.parse()).await.expect("a response in time")
    }

    async fn parse(&mut self) -> RawResponse {
        let end = loop {
            let end = self.read.windows(4).position(|part| part == b"\r\n\r\n");
            match end {
                Some(end) => break end,
                None => assert!(self.read_more().await > 0, "an incomplete response"),
            }
        };
        let head: Vec<u8> = self.read.drain(..end + 4).collect();
        let head = String::from_utf8(head).expect("text");
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.get(9..12)?.parse().ok());
        let headers: HashMap<String, String> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
            .collect();
        let length: usize = headers.get("content-length").map_or(0, |value| value.parse().expect("a length"));
        while self.read.len() < length {
            assert!(self.read_more().await > 0, "an incomplete body");
        }
        RawResponse { status: status.expect("a status"), headers, body: self.read.drain(..length).collect() }
    }

    async fn read_more(&mut self) -> usize {
        self.stream.read_buf(&mut self.read).await.expect("reading")
    }

    /// Reads as text until the server closes the connection.
    pub async fn read_to_end(&mut self) -> String {
        let read_all = tokio::time::timeout(TIME_LIMIT, self.stream.read_to_end(&mut self.read)).await;
        read_all.expect("an end in time").expect("reading");
        String::from_utf8_lossy(&self.read).into_owned()
    }

    /// Waits until the server closes the connection; no bytes may arrive.
    pub async fn expect_closed(&mut self) {
        let read = tokio::time::timeout(TIME_LIMIT, self.read_more()).await;
        assert_eq!(read.expect("an end in time"), 0, "{:?}", self.read);
    }
}

/// Sends bytes on a new connection and reads the response while sending.
pub async fn exchange(base: &str, bytes: impl AsRef<[u8]>) -> RawResponse {
    let RawConnection { stream, .. } = RawConnection::connect(base).await;
    let (read, mut write) = stream.into_split();
    let bytes = bytes.as_ref().to_vec();
    let sending = tokio::spawn(async move {
        let _ = write.write_all(&bytes).await;
        write
    });
    let mut text = Vec::new();
    let mut read = read.take(1 << 20);
    let read_all = tokio::time::timeout(TIME_LIMIT, read.read_to_end(&mut text)).await;
    read_all.expect("an end in time").expect("reading");
    drop(sending.await);
    let mut connection = RawConnection {
        stream: TcpStream::connect(base.trim_start_matches("http://")).await.expect("a connection"),
        read: text,
    };
    connection.response().await
}
