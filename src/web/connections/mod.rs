//! Connections: limits on their number and idle time, and graceful shutdown.
//!
//! Supports HTTP/1.1, and cleartext HTTP/2 with prior knowledge. TLS is left to a proxy.

mod body_rate;
mod drain_body;
mod invalid_request;
mod send_progress;
mod transport;
mod write_rate;

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use http_body_util::combinators::BoxBody;
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use poem::http::header::{CONNECTION, EXPECT, HeaderValue};
use poem::http::uri::Scheme;
use poem::http::{Request, StatusCode};
use poem::web::{LocalAddr, RemoteAddr};
use poem::{Body, Endpoint, Response};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use body_rate::RateLimitedBody;
use drain_body::BodyState;
use send_progress::{MonitoredBody, SendProgress};
use transport::{ClientTransport, Traffic};
pub use write_rate::WRITE_TIMEOUT;

/// Maximum size of a request head that is read, in bytes; `web::limits` applies lower limits.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// Maximum number of concurrent requests on an HTTP/2 connection.
const MAX_STREAMS: u32 = 128;
/// Timeout of an HTTP/2 keep-alive ping.
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// Pause after a failure to accept a connection, for example because too many files are open.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// An incoming body.
type BodyStream = BoxStream<'static, io::Result<Bytes>>;

/// Limits of connections.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionLimits {
    /// Maximum number of open connections; further ones wait to be accepted.
    pub connections: usize,
    /// Maximum time to receive the whole head of the next request, from the end of the last response.
    pub idle: Duration,
    /// Time for open requests to finish after shutdown started.
    pub drain: Duration,
    /// Time without traffic after which an idle HTTP/1.1 connection is closed when shutdown started; zero closes it at
    /// once.
    pub quiet: Duration,
    /// Time after which a response over HTTP/2 is dropped if its client accepts too little of it. If the end of a
    /// response waits and the client accepts nothing at all, the connection is closed after twice this time.
    pub unread: Duration,
}

/// Extension of a response that is not sent, because its connection is closed. Only a test server sets it.
#[derive(Debug, Clone, Copy)]
pub struct CloseConnection;

/// Reason why a connection is closed while a request is processed.
#[derive(Debug, thiserror::Error)]
#[error("the connection is closed without a response")]
struct ClosedWithoutResponse;

/// Serves until `stop` resolves, then lets open requests finish within the drain time.
pub async fn serve<E>(
    listener: TcpListener,
    endpoint: E,
    limits: ConnectionLimits,
    stop: impl Future<Output = ()>,
) where
    E: Endpoint<Output = Response> + 'static,
{
    let endpoint = Arc::new(endpoint);
    let permits = Arc::new(Semaphore::new(limits.connections));
    let (tracker, stopping, cut) = (
        TaskTracker::new(),
        CancellationToken::new(),
        CancellationToken::new(),
    );
    tokio::pin!(stop);
    loop {
        let next = async {
            let permit = Arc::clone(&permits).acquire_owned().await;
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            () = &mut stop => break,
            next = next => next,
        };
        match accepted {
            Ok((stream, remote)) => {
                let connection = Connection {
                    endpoint: Arc::clone(&endpoint),
                    local: stream.local_addr().ok(),
                    remote,
                    idle: limits.idle,
                    quiet: limits.quiet,
                    unread: limits.unread,
                    stopping: stopping.clone(),
                };
                let cut = cut.clone();
                tracker.spawn(async move {
                    let _place = permit;
                    cut.run_until_cancelled(connection.serve(stream)).await;
                });
            }
            Err(error) => {
                tracing::warn!(%error, "failed to accept a connection");
                if storage::fault(&error) == Some(storage::Fault::TooManyFiles) {
                    storage::record_exhausted_files();
                }
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
    drop(listener);
    stopping.cancel();
    tracker.close();
    if tokio::time::timeout(limits.drain, tracker.wait()).await.is_err() {
        tracing::warn!(
            connections = tracker.len(),
            "requests did not finish before the drain timeout"
        );
        cut.cancel();
        tracker.wait().await;
    }
}

struct Connection<E> {
    endpoint: Arc<E>,
    local: Option<SocketAddr>,
    remote: SocketAddr,
    idle: Duration,
    quiet: Duration,
    unread: Duration,
    stopping: CancellationToken,
}

impl<E: Endpoint<Output = Response> + 'static> Connection<E> {
    async fn serve(self, stream: TcpStream) {
        if let Some(transport) = self.http1(ClientTransport::new(stream)).await {
            self.http2(transport).await;
        }
    }

    /// Serves requests until the connection ends. Returns the transport if the client speaks HTTP/2.
    async fn http1(&self, transport: ClientTransport) -> Option<ClientTransport> {
        let traffic = transport.traffic();
        // Whether the client may still be sending a body that no handler reads.
        let unread = Arc::new(BodyState::new());
        let service = service_fn(|request: Request<Incoming>| {
            let unread = Arc::clone(&unread);
            match request.body() {
                body if body.is_end_stream() => unread.ended(),
                // A client that expects `100 Continue` does not send a body that no handler reads.
                _ if request.headers().contains_key(EXPECT) => unread.begin(Some(u64::MAX)),
                body => unread.begin(body.size_hint().upper()),
            }
            let answer = self.answer(request, Some(Arc::clone(&unread)));
            Box::pin(async move {
                let mut answer = answer.await?;
                unread.drain().await;
                // While the server stops, the client must send its next request on a new connection.
                if unread.is_left() || self.stopping.is_cancelled() {
                    let close = HeaderValue::from_static("close");
                    answer.headers_mut().insert(CONNECTION, close);
                }
                Ok::<_, ClosedWithoutResponse>(hyper::Response::from(answer))
            })
        });
        let mut connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.idle)
            .max_header_size(MAX_HEAD_BYTES)
            .serve_connection(TokioIo::new(transport), service);
        let mut shutdown_started = false;
        let outcome = loop {
            let outcome = tokio::select! {
                // Data that arrived in the meantime is read first, so that the connection does not count as quiet.
                biased;
                outcome = poll_fn(|context| connection.poll_without_shutdown(context)) => Some(outcome),
                () = self.stopped_and_quiet(&traffic), if !shutdown_started => None,
            };
            match outcome {
                Some(outcome) => break outcome,
                None => Pin::new(&mut connection).graceful_shutdown(),
            }
            shutdown_started = true;
        };
        let parts = connection.into_parts();
        let (mut transport, rest) = (parts.io.into_inner(), parts.read_buf);
        let mut unread = unread.is_unread() || !rest.is_empty();
        match outcome {
            Err(error) if error.is_parse_version_h2() => {
                transport.prepend(rest);
                return Some(transport);
            }
            Err(error) if error.is_parse() => {
                unread = true;
                if let Some(status) = transport
                    .take_library_response()
                    .and_then(|bare| invalid_request::status(&bare))
                {
                    tracing::info!(remote = %self.remote, %status, %error, "rejected malformed request");
                    transport.answer(&invalid_request::response(status)).await;
                }
            }
            // After a partial head the client gets a response; an idle connection is just closed.
            Err(error) if error.is_timeout() && !rest.is_empty() => {
                transport
                    .answer(&invalid_request::response(StatusCode::REQUEST_TIMEOUT))
                    .await;
            }
            _ => {}
        }
        transport.close(unread).await;
        None
    }

    /// Resolves when shutdown has started and the connection can be closed if it is idle. A client may have sent a
    /// request before it knows that the connection ends, so its connection must have been quiet for some time.
    async fn stopped_and_quiet(&self, traffic: &Traffic) {
        self.stopping.cancelled().await;
        let mut seen = traffic.count();
        while !self.quiet.is_zero() {
            tokio::time::sleep(self.quiet).await;
            let count = traffic.count();
            if count == seen {
                return;
            }
            seen = count;
        }
    }

    async fn http2(&self, transport: ClientTransport) {
        let streams = watch::Sender::new(0_usize);
        let progress = SendProgress::default();
        let service = service_fn(|request: Request<Incoming>| {
            let under_way = OpenRequestGuard::new(&streams);
            let answer = self.answer(request, None);
            async move {
                let answer = answer.await;
                drop(under_way);
                let answer = hyper::Response::<BoxBody<Bytes, io::Error>>::from(answer?);
                Ok::<_, ClosedWithoutResponse>(answer.map(MonitoredBody::new))
            }
        });
        let head = u32::try_from(MAX_HEAD_BYTES).unwrap_or(u32::MAX);
        let connection = http2::Builder::new(progress.executor(self.remote, self.unread))
            .timer(TokioTimer::new())
            .max_concurrent_streams(MAX_STREAMS)
            .max_header_list_size(head)
            .keep_alive_interval(self.idle)
            .keep_alive_timeout(PING_TIMEOUT)
            .serve_connection(TokioIo::new(transport), service);
        tokio::pin!(connection);
        let stalled = progress.stalled(2 * self.unread);
        tokio::pin!(stalled);
        let mut shutdown_started = false;
        loop {
            let ends = async {
                tokio::select! {
                    () = self.stopping.cancelled() => {}
                    () = idle(streams.subscribe(), self.idle) => {}
                }
            };
            tokio::select! {
                outcome = &mut connection => {
                    if let Err(error) = outcome {
                        tracing::debug!(remote = %self.remote, %error, "connection failed");
                    }
                    return;
                }
                () = &mut stalled => {
                    tracing::info!(remote = %self.remote, "closed connection whose client accepted no responses");
                    return;
                }
                () = ends, if !shutdown_started => {
                    shutdown_started = true;
                    connection.as_mut().graceful_shutdown();
                }
            }
        }
    }

    fn answer(
        &self,
        request: Request<Incoming>,
        unread: Option<Arc<BodyState<BodyStream>>>,
    ) -> impl Future<Output = Result<Response, ClosedWithoutResponse>> + Send + use<E> {
        let local = self
            .local
            .map(|address| LocalAddr(address.into()))
            .unwrap_or_default();
        let remote = RemoteAddr(self.remote.into());
        let endpoint = Arc::clone(&self.endpoint);
        let empty = request.body().is_end_stream();
        let mut request = poem::Request::from((request, local, remote, Scheme::HTTP));
        if !empty {
            let body: BodyStream = Box::pin(request.take_body().into_bytes_stream());
            request.set_body(Body::from_bytes_stream(RateLimitedBody::new(body, unread)));
        }
        async move {
            let response = endpoint.get_response(request).await;
            match response.extensions().get::<CloseConnection>() {
                None => Ok(response),
                Some(CloseConnection) => Err(ClosedWithoutResponse),
            }
        }
    }
}

/// Counts a request of an HTTP/2 connection while it is open.
struct OpenRequestGuard(watch::Sender<usize>);

impl OpenRequestGuard {
    fn new(streams: &watch::Sender<usize>) -> Self {
        streams.send_modify(|count| *count += 1);
        Self(streams.clone())
    }
}

impl Drop for OpenRequestGuard {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}

/// Resolves when there was no request for `limit`.
async fn idle(mut streams: watch::Receiver<usize>, limit: Duration) {
    while streams.wait_for(|count| *count == 0).await.is_ok() {
        let next_request = streams.wait_for(|count| *count > 0);
        if tokio::time::timeout(limit, next_request).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use futures_util::stream;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Start of a connection with HTTP/2, without settings.
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    /// Settings without values, so that the client accepts 65,535 bytes.
    const NO_SETTINGS: &[u8] = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00";
    /// The setting that the client accepts 0 bytes of each body.
    const NO_WINDOW: &[u8] = b"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x00";
    const UNREAD: Duration = Duration::from_millis(200);
    /// Time limit for a client that reads. On a machine with much other work, each read may take long.
    const SLOW_UNREAD: Duration = Duration::from_secs(2);
    const TIME_LIMIT: Duration = Duration::from_secs(20);
    const LARGE: usize = 1 << 20;

    /// Returns a frame.
    fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
        let size = u8::try_from(payload.len()).expect("a short payload");
        [&[0, 0, size, kind, flags, 0, 0, 0, stream][..], payload].concat()
    }

    /// Returns `GET /` with the authority `h`.
    fn request(stream: u8) -> Vec<u8> {
        frame(1, 5, stream, b"\x82\x86\x84\x41\x01h")
    }

    /// Returns a reset of a stream with the code `CANCEL`.
    fn reset(stream: u8) -> Vec<u8> {
        frame(3, 0, stream, &[0, 0, 0, 8])
    }

    /// Returns a frame that accepts `size` more bytes of a stream, or of the connection (0).
    fn accept(stream: u8, size: u32) -> Vec<u8> {
        frame(8, 0, stream, &size.to_be_bytes())
    }

    /// An endpoint that returns a body of `size` bytes with a clone of `used`, or a body that is created slowly.
    struct Bodies {
        size: usize,
        used: Option<Arc<()>>,
    }

    struct UsedBytes {
        bytes: Vec<u8>,
        _used: Arc<()>,
    }

    impl AsRef<[u8]> for UsedBytes {
        fn as_ref(&self) -> &[u8] {
            &self.bytes
        }
    }

    impl Endpoint for Bodies {
        type Output = Response;

        async fn call(&self, _request: poem::Request) -> poem::Result<Response> {
            let body = match &self.used {
                Some(used) => Body::from_bytes(Bytes::from_owner(UsedBytes {
                    bytes: vec![b'x'; self.size],
                    _used: Arc::clone(used),
                })),
                None => Body::from_bytes_stream(stream::once(async {
                    tokio::time::sleep(5 * UNREAD).await;
                    Ok::<_, io::Error>(Bytes::from_static(b"the end"))
                })),
            };
            Ok(Response::builder().body(body))
        }
    }

    fn large_body(used: &Arc<()>) -> Bodies {
        Bodies {
            size: LARGE,
            used: Some(Arc::clone(used)),
        }
    }

    async fn connect(bodies: Bodies) -> TcpStream {
        connect_with(bodies, UNREAD).await
    }

    async fn connect_with(bodies: Bodies, unread: Duration) -> TcpStream {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
        let address = listener.local_addr().expect("an address");
        let limits = ConnectionLimits {
            connections: 1,
            idle: Duration::from_secs(60),
            drain: Duration::ZERO,
            quiet: Duration::ZERO,
            unread,
        };
        tokio::spawn(serve(listener, bodies, limits, pending()));
        TcpStream::connect(address).await.expect("a connection")
    }

    /// Reads until the bytes were received.
    async fn read_until(connection: &mut TcpStream, expected: &[u8]) -> Vec<u8> {
        let mut received = Vec::<u8>::new();
        let read = async {
            while !received.windows(expected.len()).any(|part| part == expected) {
                assert!(connection.read_buf(&mut received).await.expect("reading") > 0);
            }
        };
        tokio::time::timeout(TIME_LIMIT, read)
            .await
            .expect("the bytes in time");
        received
    }

    /// Waits until no body exists: the test and the endpoint have one clone each.
    async fn wait_until_released(used: &Arc<()>) {
        let released = async {
            while Arc::strong_count(used) > 2 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(TIME_LIMIT, released)
            .await
            .expect("released memory");
    }

    #[tokio::test]
    async fn http2_response_of_which_the_client_accepts_nothing_is_reset() {
        let used = Arc::new(());
        let mut connection = connect(large_body(&used)).await;
        let start = [PREFACE, NO_WINDOW, &request(1)].concat();
        connection.write_all(&start).await.expect("a request");
        let received = read_until(&mut connection, &reset(1)).await;
        assert!(!received.windows(4).any(|part| part == b"xxxx"));
        wait_until_released(&used).await;
    }

    #[tokio::test]
    async fn http2_response_of_which_the_client_accepts_a_part_is_reset() {
        let used = Arc::new(());
        let mut connection = connect(large_body(&used)).await;
        // The client accepts 65,535 bytes, so the HTTP library has a piece that it has written only in part.
        let start = [PREFACE, NO_SETTINGS, &request(1)].concat();
        connection.write_all(&start).await.expect("a request");
        read_until(&mut connection, &reset(1)).await;
        wait_until_released(&used).await;
    }

    #[tokio::test]
    async fn other_requests_over_http2_do_not_preserve_an_unread_response() {
        let used = Arc::new(());
        let mut connection = connect(large_body(&used)).await;
        let start = [PREFACE, NO_WINDOW, &request(1)].concat();
        connection.write_all(&start).await.expect("a request");
        let (mut reader, mut writer) = connection.split();
        let others = async {
            for stream in (3..=u8::MAX).step_by(2).take(100) {
                writer.write_all(&request(stream)).await.expect("a request");
                tokio::time::sleep(UNREAD / 8).await;
                writer.write_all(&reset(stream)).await.expect("a reset");
                tokio::time::sleep(UNREAD / 8).await;
            }
        };
        let is_reset = async {
            let (mut received, expected) = (Vec::<u8>::new(), reset(1));
            while !received.windows(expected.len()).any(|part| part == expected) {
                assert!(reader.read_buf(&mut received).await.expect("reading") > 0);
            }
        };
        tokio::select! {
            () = others => panic!("the unread response is not reset"),
            () = is_reset => {}
        }
        wait_until_released(&used).await;
    }

    #[tokio::test]
    async fn slow_client_of_http2_receives_the_whole_response() {
        let used = Arc::new(());
        let mut connection = connect_with(large_body(&used), SLOW_UNREAD).await;
        let start = [
            PREFACE,
            NO_WINDOW,
            &request(1),
            &accept(0, 2 << 20),
            &accept(1, 100),
        ]
        .concat();
        connection.write_all(&start).await.expect("a request");
        let (mut reader, mut writer) = connection.split();
        let accepted = async {
            for _ in 0..=LARGE / (40 << 10) {
                tokio::time::sleep(SLOW_UNREAD / 20).await;
                writer.write_all(&accept(1, 40 << 10)).await.expect("more");
            }
            pending::<()>().await;
        };
        let received = async {
            let mut received = Vec::<u8>::new();
            while received.iter().filter(|byte| **byte == b'x').count() < LARGE {
                assert!(reader.read_buf(&mut received).await.expect("reading") > 0);
            }
        };
        let received = tokio::time::timeout(TIME_LIMIT, received);
        tokio::select! {
            () = accepted => {}
            received = received => received.expect("the whole response"),
        }
        wait_until_released(&used).await;
    }

    #[tokio::test]
    async fn http2_connection_is_closed_if_the_end_of_a_response_is_not_accepted() {
        let used = Arc::new(());
        let mut connection = connect(Bodies {
            size: 100,
            used: Some(Arc::clone(&used)),
        })
        .await;
        let start = [PREFACE, NO_WINDOW, &request(1), &accept(1, 1)].concat();
        connection.write_all(&start).await.expect("a request");
        let mut received = Vec::new();
        let read = connection.read_to_end(&mut received);
        let read = tokio::time::timeout(TIME_LIMIT, read).await;
        read.expect("the end in time").expect("an orderly end");
        assert!(!received.windows(2).any(|part| part == b"xx"));
        wait_until_released(&used).await;
    }

    #[tokio::test]
    async fn slow_response_over_http2_is_completed() {
        let mut connection = connect(Bodies { size: 0, used: None }).await;
        let start = [PREFACE, NO_SETTINGS, &request(1)].concat();
        connection.write_all(&start).await.expect("a request");
        read_until(&mut connection, b"the end").await;
    }
}
