//! A client for HTTP/1.1 over one kept-alive connection that does next to nothing, so that what is measured is the
//! server: requests are prepared bytes, and of an answer only the status and the length are looked at.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::Result;

/// How long one answer may take.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// The longest head of an answer, in bytes.
const LONGEST_HEAD: usize = 64 << 10;

/// A request, ready to be sent any number of times.
#[derive(Debug, Clone)]
pub struct Request {
    bytes: Vec<u8>,
    line: String,
    has_answer_body: bool,
}

impl Request {
    /// A request without a body; with a token where one is given.
    pub fn new(method: &str, path: &str, token: Option<&str>) -> Self {
        Self::build(method, path, token, None)
    }

    /// A POST of JSON.
    pub fn post(path: &str, token: &str, body: &Value) -> Self {
        Self::build("POST", path, Some(token), Some(&body.to_string()))
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

/// A connection and the last answer that came over it.
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

    /// Sends a request and reads the answer to its end; answers the status.
    pub async fn exchange(&mut self, request: &Request) -> Result<u16> {
        self.stream.write_all(&request.bytes).await?;
        self.buffer.clear();
        let head = loop {
            self.read_more().await?;
            if let Some(end) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break end;
            }
            if self.buffer.len() > LONGEST_HEAD {
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

    /// The body of the last answer.
    pub fn body(&self) -> &[u8] {
        self.buffer.get(self.body_start..).unwrap_or_default()
    }

    /// Sends a request that must succeed, and answers how long that took.
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

    /// Sends a request that must succeed, and answers the JSON of the answer.
    pub async fn json(&mut self, request: &Request) -> Result<Value> {
        self.succeed(request).await?;
        Ok(serde_json::from_slice(self.body())?)
    }
}

/// The status and, where it is told, the length of the body.
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
    // These never have a body, and so need not tell.
    let empty = matches!(status, 204 | 304).then_some(0);
    Some((status, length.or(empty)))
}

/// A text as one component of a path.
pub fn component(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}
