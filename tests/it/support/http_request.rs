//! HTTP requests received by the servers of the tests.

use std::collections::HashMap;

use tokio::io::{AsyncRead, AsyncReadExt};

/// A complete request.
pub struct Received {
    /// Method and target.
    pub line: String,
    /// Headers by lower-case name.
    pub headers: HashMap<String, String>,
    /// Body.
    pub body: Vec<u8>,
}

/// Reads one request. Returns `None` if the client disconnects or sends an invalid request.
pub async fn receive(stream: &mut (impl AsyncRead + Unpin)) -> Option<Received> {
    let mut data = Vec::new();
    let mut piece = vec![0; 65536];
    let end = loop {
        if let Some(at) = data.windows(4).position(|four| four == b"\r\n\r\n") {
            break at;
        }
        match stream.read(&mut piece).await.ok()? {
            0 => return None,
            count => data.extend_from_slice(&piece[..count]),
        }
    };
    let head = String::from_utf8(data[..end].to_vec()).ok()?;
    let mut lines = head.lines();
    let line = lines.next()?.trim_end_matches(" HTTP/1.1").to_owned();
    let headers: HashMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let length: usize = headers.get("content-length").map_or(Some(0), |text| text.parse().ok())?;
    let mut body = data.split_off(end + 4);
    while body.len() < length {
        match stream.read(&mut piece).await.ok()? {
            0 => return None,
            count => body.extend_from_slice(&piece[..count]),
        }
    }
    Some(Received { line, headers, body })
}
