//! A webhook receiver on the loopback address, controlled by the test. The bodies of all requests that a test reads are
//! validated against the contract.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::{self, ServerConfig};

use super::contract;
use super::http_request::{Received, receive};

/// Time limit, after which a test fails instead of blocking.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Reaction of a receiver to a request.
#[derive(Debug, Clone)]
pub enum Reply {
    /// Returns this status.
    Status(u16),
    /// Returns a redirect.
    Redirect(u16, String),
    /// Never responds.
    Hang,
    /// Returns 200 and an endless body.
    Endless,
    /// Closes the connection.
    Close,
}

/// A received request.
#[derive(Debug, Clone)]
pub struct ReceivedRequest {
    /// Method and path.
    pub line: String,
    /// Headers by lower-case name.
    pub headers: HashMap<String, String>,
    /// Body.
    pub body: Value,
    /// Body as it was received.
    pub bytes: Vec<u8>,
}

impl ReceivedRequest {
    /// Returns a header, or the empty string.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

type Script = Arc<dyn Fn(usize) -> Reply + Send + Sync>;

/// A running receiver.
pub struct Receiver {
    /// Base URL.
    pub url: String,
    arrivals: mpsc::UnboundedReceiver<ReceivedRequest>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Receiver {
    /// Starts a receiver that accepts every request.
    pub async fn start() -> Self {
        Self::with(|_| Reply::Status(200)).await
    }

    /// Starts a receiver that calls `script` with the number of each request, from 0.
    pub async fn with(script: impl Fn(usize) -> Reply + Send + Sync + 'static) -> Self {
        Self::launch(Arc::new(script), None).await
    }

    /// Starts a TLS receiver with a self-signed certificate.
    pub async fn self_signed() -> Self {
        let certificate = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("a certificate");
        let key = rustls::pki_types::PrivateKeyDer::try_from(certificate.signing_key.serialize_der()).expect("a key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("protocol versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.cert.der().clone()], key)
            .expect("a configuration");
        Self::launch(Arc::new(|_| Reply::Status(200)), Some(TlsAcceptor::from(Arc::new(config)))).await
    }

    async fn launch(script: Script, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let scheme = if tls.is_some() { "https" } else { "http" };
        let (sender, arrivals) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            let mut served = 0;
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.expect("a connection");
                let (sender, tls) = (sender.clone(), tls.clone());
                // One request per connection; the client does not reuse connections.
                let reply = script(served);
                served += 1;
                connections.spawn(async move {
                    match tls {
                        None => serve(stream, reply, sender).await,
                        Some(acceptor) => match acceptor.accept(stream).await {
                            Ok(stream) => serve(stream, reply, sender).await,
                            Err(_) => None,
                        },
                    }
                });
            }
        });
        Self { url: format!("{scheme}://{address}"), arrivals, task }
    }

    /// Returns the next request.
    pub async fn next(&mut self) -> ReceivedRequest {
        let next = timeout(TIME_LIMIT, self.arrivals.recv()).await;
        let request = next.expect("a request in time").expect("a receiver");
        contract::check_delivery(&request.body);
        request
    }

    /// Returns the received requests that the test has not consumed.
    pub fn rest(&mut self) -> Vec<ReceivedRequest> {
        let rest: Vec<ReceivedRequest> = std::iter::from_fn(|| self.arrivals.try_recv().ok()).collect();
        rest.iter().for_each(|request| contract::check_delivery(&request.body));
        rest
    }
}

/// Block size of SHA-256 in bytes.
const BLOCK: usize = 64;

/// Returns the HMAC-SHA-256 of a text, computed as RFC 2104 defines it.
pub fn hmac_sha256(key: &[u8], text: &[u8]) -> Vec<u8> {
    assert!(key.len() <= BLOCK, "a short key");
    let padded = |byte: u8| -> Vec<u8> {
        let key = key.iter().copied().chain(std::iter::repeat(0)).take(BLOCK);
        key.map(|part| part ^ byte).collect()
    };
    let inner = Sha256::digest([padded(0x36), text.to_vec()].concat());
    Sha256::digest([padded(0x5c), inner.to_vec()].concat()).to_vec()
}

/// Returns an address without a listener.
pub async fn unused_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    format!("http://{}", listener.local_addr().expect("an address"))
}

/// Binds a listener to an address returned by [`unused_address`].
pub async fn listen_on(url: &str) -> TcpListener {
    let address = url.strip_prefix("http://").expect("an address");
    TcpListener::bind(address).await.expect("the port")
}

/// Receives one request on a listener, responds with 200 and returns the request.
pub async fn receive_one(listener: &TcpListener) -> ReceivedRequest {
    let (sender, mut arrivals) = mpsc::unbounded_channel();
    let work = async {
        let (stream, _): (TcpStream, _) = listener.accept().await.expect("a connection");
        serve(stream, Reply::Status(200), sender).await;
        arrivals.recv().await.expect("a request")
    };
    timeout(TIME_LIMIT, work).await.expect("a request in time")
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    reply: Reply,
    sender: mpsc::UnboundedSender<ReceivedRequest>,
) -> Option<()> {
    let Received { line, headers, body } = receive(&mut stream).await?;
    let parsed = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let arrived = ReceivedRequest { line, headers, body: parsed, bytes: body };
    sender.send(arrived).ok()?;
    let response = match reply {
        Reply::Status(status) => {
            format!("HTTP/1.1 {status} Status\r\nX-Answer: yes\r\nContent-Length: 4\r\n\r\nDone")
        }
        Reply::Redirect(status, to) => {
            format!("HTTP/1.1 {status} Moved\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n")
        }
        Reply::Hang => {
            std::future::pending::<()>().await;
            return None;
        }
        Reply::Close => return None,
        Reply::Endless => {
            let head = "HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n";
            stream.write_all(head.as_bytes()).await.ok()?;
            loop {
                stream.write_all(&[b'x'; 65536]).await.ok()?;
            }
        }
    };
    stream.write_all(response.as_bytes()).await.ok()?;
    stream.shutdown().await.ok()
}
