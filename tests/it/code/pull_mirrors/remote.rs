//! Servers of remote repositories: a proxy of the server without version 2 of the protocol, and one with fixed
//! responses.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::support::http_request::{Received, receive};

const LIST_TYPE: &str = "application/x-git-upload-pack-advertisement";
const RESULT_TYPE: &str = "application/x-git-upload-pack-result";

/// Returns a packet with a payload.
pub fn packet(payload: &[u8]) -> Vec<u8> {
    [format!("{:04x}", payload.len() + 4).as_bytes(), payload].concat()
}

/// Returns the list of these refs, given as `<id> <name>`, in version 0.
pub fn list(refs: &[String]) -> Vec<u8> {
    let mut body = [&packet(b"# service=git-upload-pack\n")[..], b"0000"].concat();
    for (number, line) in refs.iter().enumerate() {
        let capabilities = if number == 0 { "\0side-band-64k thin-pack ofs-delta" } else { "" };
        body.extend(packet(format!("{line}{capabilities}\n").as_bytes()));
    }
    body.extend_from_slice(b"0000");
    body
}

/// Returns the response to a fetch with this pack.
pub fn result(pack: &[u8]) -> Vec<u8> {
    let mut body = packet(b"NAK\n");
    for piece in pack.chunks(60_000) {
        body.extend(packet(&[&[1], piece].concat()));
    }
    body.extend_from_slice(b"0000");
    body
}

/// The responses of a server. A body that is shorter than its length never ends.
#[derive(Clone)]
pub struct Responses {
    pub list: Vec<u8>,
    pub result: Vec<u8>,
    /// Number of further bytes of the result that follow without end.
    pub missing: usize,
}

/// Starts a server with fixed responses and returns the URL of its repository.
pub async fn serve(responses: Responses) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://ada:pass-word@{}/a.git", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let responses = responses.clone();
            tokio::spawn(async move {
                let request = receive(&mut stream).await?;
                let (kind, body, missing) = match request.line.starts_with("GET") {
                    true => (LIST_TYPE, responses.list, 0),
                    false => (RESULT_TYPE, responses.result, responses.missing),
                };
                let length = body.len() + missing;
                let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n");
                stream.write_all(head.as_bytes()).await.ok()?;
                stream.write_all(&body).await.ok()?;
                stream.shutdown().await.ok()
            });
        }
    });
    url
}

/// Starts a proxy of a server that removes the header with the version of the protocol, and returns its base address.
pub async fn proxy(base: &str) -> String {
    let (address, is_complete) = cutting_proxy(base).await;
    is_complete.store(true, Ordering::Relaxed);
    address
}

/// Starts a proxy like [`proxy`], which sends only the first half of each pack, until the flag is set.
pub async fn cutting_proxy(base: &str) -> (String, Arc<AtomicBool>) {
    let is_complete = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_complete);
    let target = base.strip_prefix("http://").expect("an address").to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (target, is_complete) = (target.clone(), Arc::clone(&flag));
            tokio::spawn(async move {
                let request = receive(&mut stream).await?;
                let mut upstream = TcpStream::connect(&target).await.ok()?;
                upstream.write_all(&forwarded(&request)).await.ok()?;
                let mut response = Vec::new();
                upstream.read_to_end(&mut response).await.ok()?;
                if request.line.starts_with("POST") && !is_complete.load(Ordering::Relaxed) {
                    let head = response.windows(4).position(|part| part == b"\r\n\r\n")? + 4;
                    response.truncate(head + (response.len() - head) / 2);
                }
                stream.write_all(&response).await.ok()?;
                stream.shutdown().await.ok()
            });
        }
    });
    (address, is_complete)
}

/// A proxy like [`proxy`], which forwards the request of a pack only when the test allows it.
pub struct PausingProxy {
    /// The base address.
    pub base: String,
    /// Notified when a pack is requested.
    pub requested: Arc<Notify>,
    /// Notified by the test to forward the request.
    pub released: Arc<Notify>,
}

/// Starts a [`PausingProxy`] of a server.
pub async fn pausing_proxy(base: &str) -> PausingProxy {
    let (requested, released) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (arrival, release) = (Arc::clone(&requested), Arc::clone(&released));
    let target = base.strip_prefix("http://").expect("an address").to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let base = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (target, arrival, release) = (target.clone(), Arc::clone(&arrival), Arc::clone(&release));
            tokio::spawn(async move {
                let request = receive(&mut stream).await?;
                if request.line.starts_with("POST") {
                    arrival.notify_one();
                    release.notified().await;
                }
                let mut upstream = TcpStream::connect(&target).await.ok()?;
                upstream.write_all(&forwarded(&request)).await.ok()?;
                let mut response = Vec::new();
                upstream.read_to_end(&mut response).await.ok()?;
                stream.write_all(&response).await.ok()?;
                stream.shutdown().await.ok()
            });
        }
    });
    PausingProxy { base, requested, released }
}

fn forwarded(request: &Received) -> Vec<u8> {
    let mut head = format!("{} HTTP/1.1\r\nconnection: close\r\n", request.line);
    for (name, value) in request.headers.iter().filter(|(name, _)| *name != "git-protocol" && *name != "connection") {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    [head.as_bytes(), b"\r\n", &request.body].concat()
}
