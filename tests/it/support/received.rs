//! A request over HTTP as it arrives, for the servers that tests have of their own.

use std::collections::HashMap;

use tokio::io::{AsyncRead, AsyncReadExt};

/// A request that was read whole.
pub struct Received {
    /// The method and the target.
    pub line: String,
    /// The headers, by their names in lower case.
    pub headers: HashMap<String, String>,
    /// The body.
    pub body: Vec<u8>,
}

/// Reads one request; none when the client leaves first, or says what no client of ours says.
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
