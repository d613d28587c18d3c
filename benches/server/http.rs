//! A minimal HTTP/1.1 client over one keep-alive connection, so that the measurement covers the server.
//! Requests are prepared bytes, and only the status and the length of a response are parsed.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::Result;

/// Time limit of a response.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// Maximum length of a response head, in bytes.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// A request that can be sent repeatedly.
#[derive(Debug, Clone)]
pub struct Request {
    bytes: Vec<u8>,
    line: String,
    has_answer_body: bool,
}

impl Request {
    /// Creates a request without a body, with an optional token.
    pub fn new(method: &str, path: &str, token: Option<&str>) -> Self {
        Self::build(method, path, token, None)
    }

    /// Creates a POST of JSON.
    pub fn post(path: &str, token: &str, body: &Value) -> Self {
        Self::with_json("POST", path, token, body)
    }

    /// Creates a request with JSON.
    pub fn with_json(method: &str, path: &str, token: &str, body: &Value) -> Self {
        Self::build(method, path, Some(token), Some(&body.to_string()))
    }

    fn build(method: &str, path: &str, token: Option<&str>, body: Option<&str>) -> Self {
        let mut text = format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n");
        if let Some(token) = token {
            text.push_str(&format!("PRIVATE-TOKEN: {token}\r\n"));
        }
        if let Some(body) = body {
            let length = body.len();
            text.push_str(&format!(
                "Content-Type: application/json\r\nContent-Length: {length}\r\n"
            ));
        }
        text.push_str("\r\n");
        text.push_str(body.unwrap_or_default());
        Self {
            bytes: text.into_bytes(),
            line: format!("{method} {path}"),
            has_answer_body: method != "HEAD",
        }
    }
}

/// A connection and its last response.
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    body_start: usize,
}

impl Connection {
    /// Connects.
    pub async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            buffer: Vec::with_capacity(64 << 10),
            body_start: 0,
        })
    }

    /// Sends a request, reads the whole response and returns the status.
    pub async fn exchange(&mut self, request: &Request) -> Result<u16> {
        self.stream.write_all(&request.bytes).await?;
        self.buffer.clear();
        let head = loop {
            self.read_more().await?;
            if let Some(end) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break end;
            }
            if self.buffer.len() > MAX_HEAD_BYTES {
                return Err("the head of an answer does not end".into());
            }
        };
        self.body_start = head + 4;
        let (status, length) = parse_head(self.buffer.get(..head).unwrap_or_default())
            .ok_or_else(|| format!("{}: an answer that is not HTTP", request.line))?;
        if request.has_answer_body {
            let length = length.ok_or_else(|| format!("{}: an answer without a length", request.line))?;
            while self.buffer.len() < self.body_start + length {
                self.read_more().await?;
            }
        }
        Ok(status)
    }

    async fn read_more(&mut self) -> Result<()> {
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err("the server closed the connection".into()),
            _ => Ok(()),
        }
    }

    /// Returns the body of the last response.
    pub fn body(&self) -> &[u8] {
        self.buffer.get(self.body_start..).unwrap_or_default()
    }

    /// Sends a request that must succeed, and returns the duration.
    pub async fn succeed(&mut self, request: &Request) -> Result<Duration> {
        let started = Instant::now();
        let status = tokio::time::timeout(TIME_LIMIT, self.exchange(request)).await??;
        let elapsed = started.elapsed();
        if (200..300).contains(&status) {
            return Ok(elapsed);
        }
        let body = String::from_utf8_lossy(self.body());
        Err(format!("{} was answered {status}: {body}", request.line).into())
    }

    /// Sends a request that must succeed, and returns the JSON of the response.
    pub async fn json(&mut self, request: &Request) -> Result<Value> {
        self.succeed(request).await?;
        Ok(serde_json::from_slice(self.body())?)
    }
}

/// Parses the status and, if present, the length of the body.
fn parse_head(head: &[u8]) -> Option<(u16, Option<usize>)> {
    let head = std::str::from_utf8(head).ok()?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse().ok())
            .flatten()
    });
    // These responses never have a body, so they need no length.
    let empty = matches!(status, 204 | 304).then_some(0);
    Some((status, length.or(empty)))
}

/// Encodes a text as one component of a path.
pub fn component(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}
