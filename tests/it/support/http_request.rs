//! HTTP requests received by the servers of the tests.

use std::collections::HashMap;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

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

/// Starts a server that responds to each request with the start of a body of this media type, and then sends nothing.
/// Returns the base URL.
pub async fn stalling_server(media_type: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        let mut connections = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            if receive(&mut stream).await.is_some() {
                let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\nContent-Length: 1000\r\n\r\n0");
                let _ = stream.write_all(head.as_bytes()).await;
                connections.push(stream);
            }
        }
    });
    url
}
