//! Progress of response bodies over HTTP/2.
//!
//! A client decides how much of each body it accepts. A client that accepts no data causes no write, so the time
//! limit of writes does not apply. A body is therefore sent in pieces, which count until the HTTP library has written
//! them. A response whose client accepts too little is dropped with its body, and the library then resets the stream.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use http_body_util::combinators::BoxBody;
use hyper::body::{Body, Frame, SizeHint};
use hyper::rt::Executor;

use super::body_rate::MIN_RATE;

/// Maximum size of a piece in bytes, which is the default size of a frame.
const MAX_PIECE_BYTES: usize = 16 << 10;
/// Number of checks within the time limit.
const CHECKS: u32 = 4;

tokio::task_local! {
    /// The progress of the stream whose task is running.
    static STREAM: StreamProgress;
}

/// Pieces that were passed to the HTTP library.
#[derive(Default)]
struct PieceCounts {
    /// Number of pieces that the library has not written yet.
    unsent: AtomicUsize,
    /// Number of times at which a first piece became unsent.
    waits: AtomicU64,
    /// Number of bytes that the library has written or discarded.
    written: AtomicU64,
}

impl PieceCounts {
    /// Counts a piece. Returns whether all earlier ones are written.
    fn add(&self) -> bool {
        let is_first = self.unsent.fetch_add(1, Ordering::AcqRel) == 0;
        if is_first {
            self.waits.fetch_add(1, Ordering::AcqRel);
        }
        is_first
    }

    /// Counts a written piece. Returns whether all pieces are written.
    fn remove(&self, size: usize) -> bool {
        self.written.fetch_add(size as u64, Ordering::AcqRel);
        self.unsent.fetch_sub(1, Ordering::AcqRel) == 1
    }

    fn is_waiting(&self) -> bool {
        self.unsent.load(Ordering::Acquire) > 0
    }

    fn waits(&self) -> u64 {
        self.waits.load(Ordering::Acquire)
    }

    fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Resolves when pieces were unsent during all of `limit` and fewer bytes than `minimum` returns were written in
    /// this time. Time in which the server has nothing to send does not count.
    async fn stalled(&self, limit: Duration, minimum: impl Fn() -> u64) {
        let (mut checks, mut waits, mut written) = (0, self.waits(), self.written());
        loop {
            tokio::time::sleep(limit / CHECKS).await;
            let is_same_wait = self.is_waiting() && self.waits() == waits;
            if is_same_wait {
                checks += 1;
            }
            if is_same_wait && checks < CHECKS {
                continue;
            }
            if is_same_wait && self.written() - written < minimum() {
                return;
            }
            (checks, waits, written) = (0, self.waits(), self.written());
        }
    }
}

/// Progress of all responses of a connection. Clones share it.
#[derive(Clone, Default)]
pub struct SendProgress(Arc<ConnectionCounts>);

#[derive(Default)]
struct ConnectionCounts {
    pieces: PieceCounts,
    /// Number of streams with unsent pieces.
    waiting_streams: AtomicU64,
}

impl SendProgress {
    /// Returns an executor of the streams of the connection. It drops a stream if the client accepts less than
    /// [`MIN_RATE`] for `limit`, of which the streams with unsent data have equal shares.
    pub fn executor(&self, remote: SocketAddr, limit: Duration) -> StreamExecutor {
        StreamExecutor {
            connection: self.clone(),
            remote,
            limit,
        }
    }

    /// Resolves when pieces are unsent and none was written for `limit`. The library cannot reset a stream whose last
    /// piece waits, so only the end of the connection releases this piece.
    pub async fn stalled(&self, limit: Duration) {
        self.0.pieces.stalled(limit, || 1).await;
    }

    fn stream(&self) -> StreamProgress {
        StreamProgress(Arc::new(StreamCounts {
            pieces: PieceCounts::default(),
            all_written: AtomicWaker::new(),
            connection: self.clone(),
        }))
    }
}

/// Progress of one response. Clones share it.
#[derive(Clone)]
struct StreamProgress(Arc<StreamCounts>);

struct StreamCounts {
    pieces: PieceCounts,
    /// Waker of a body whose last piece waits for the other pieces.
    all_written: AtomicWaker,
    connection: SendProgress,
}

impl StreamProgress {
    /// Resolves when the client has accepted less than the minimum during `limit`.
    async fn stalled(&self, limit: Duration) {
        let milliseconds = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        let total = milliseconds.saturating_mul(MIN_RATE) / 1_000;
        let waiting_streams = &self.0.connection.0.waiting_streams;
        let minimum = || total / waiting_streams.load(Ordering::Acquire).max(1);
        self.0.pieces.stalled(limit, || minimum().max(1)).await;
    }

    /// Returns a piece that counts until it is dropped.
    fn count(&self, piece: Bytes) -> Bytes {
        let connection = &self.0.connection.0;
        connection.pieces.add();
        if self.0.pieces.add() {
            connection.waiting_streams.fetch_add(1, Ordering::AcqRel);
        }
        Bytes::from_owner(UnsentPiece {
            bytes: piece,
            progress: self.clone(),
        })
    }

    /// Resolves when all pieces are written.
    fn poll_all_written(&self, context: &mut Context<'_>) -> Poll<()> {
        if !self.0.pieces.is_waiting() {
            return Poll::Ready(());
        }
        self.0.all_written.register(context.waker());
        // The last piece may have been written before the waker was registered.
        match self.0.pieces.is_waiting() {
            true => Poll::Pending,
            false => Poll::Ready(()),
        }
    }
}

/// A piece of a body that is not yet written.
struct UnsentPiece {
    bytes: Bytes,
    progress: StreamProgress,
}

impl AsRef<[u8]> for UnsentPiece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for UnsentPiece {
    fn drop(&mut self) {
        let StreamCounts {
            pieces,
            all_written,
            connection,
        } = &*self.progress.0;
        let size = self.bytes.len();
        connection.0.pieces.remove(size);
        if pieces.remove(size) {
            connection.0.waiting_streams.fetch_sub(1, Ordering::AcqRel);
            all_written.wake();
        }
    }
}

/// Runs the streams of a connection, each as a task.
#[derive(Clone)]
pub struct StreamExecutor {
    connection: SendProgress,
    remote: SocketAddr,
    limit: Duration,
}

impl<F> Executor<F> for StreamExecutor
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let (progress, remote, limit) = (self.connection.stream(), self.remote, self.limit);
        tokio::spawn(async move {
            let running = STREAM.scope(progress.clone(), stream);
            // A dropped stream releases its body, also if the library waits for the client and does not poll the body
            // again.
            tokio::select! {
                biased;
                () = running => {}
                () = progress.stalled(limit) => {
                    tracing::info!(%remote, "reset stream whose client accepted too little of the response");
                }
            }
        });
    }
}

/// A response body that is sent in pieces.
///
/// When the library has received the end of a body, its stream can no longer be reset. The end is therefore passed on
/// when all other pieces are written. A last piece is a copy, so that the memory of the whole body is released.
pub struct MonitoredBody {
    inner: BoxBody<Bytes, io::Error>,
    /// Whether `inner` has returned its last frame.
    is_ended: bool,
    /// The rest of the last chunk of the body.
    rest: Bytes,
    progress: StreamProgress,
}

impl MonitoredBody {
    /// Returns a body of the stream whose task calls this function.
    pub fn new(inner: BoxBody<Bytes, io::Error>) -> Self {
        let progress = STREAM.try_with(Clone::clone);
        Self {
            inner,
            is_ended: false,
            rest: Bytes::new(),
            progress: progress.unwrap_or_else(|_| SendProgress::default().stream()),
        }
    }
}

impl Body for MonitoredBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.rest.is_empty() && !self.is_ended {
            match ready!(Pin::new(&mut self.inner).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(chunk) if chunk.is_empty() => return Poll::Ready(Some(Ok(Frame::data(chunk)))),
                    Ok(chunk) => self.rest = chunk,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => self.is_ended = true,
            }
        }
        if self.rest.is_empty() {
            ready!(self.progress.poll_all_written(context));
            return Poll::Ready(None);
        }
        let size = self.rest.len().min(MAX_PIECE_BYTES);
        let is_last = size == self.rest.len() && self.inner.is_end_stream();
        if is_last {
            ready!(self.progress.poll_all_written(context));
        }
        let piece = self.rest.split_to(size);
        let piece = match is_last {
            true => Bytes::copy_from_slice(&piece),
            false => piece,
        };
        Poll::Ready(Some(Ok(Frame::data(self.progress.count(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (inner, rest) = (self.inner.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower().saturating_add(rest));
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper.saturating_add(rest));
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt, stream};
    use http_body_util::{BodyExt, Full, StreamBody};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(120);

    /// Bytes that exist as long as their clone of the counter.
    struct CountedBytes {
        bytes: Vec<u8>,
        _counter: Arc<()>,
    }

    impl AsRef<[u8]> for CountedBytes {
        fn as_ref(&self) -> &[u8] {
            &self.bytes
        }
    }

    fn body(bytes: Bytes) -> MonitoredBody {
        let body = Full::new(bytes).map_err(|never| match never {});
        MonitoredBody::new(body.boxed())
    }

    async fn next(body: &mut MonitoredBody) -> Bytes {
        let frame = body.frame().await.expect("a frame").expect("a piece");
        frame.into_data().expect("data")
    }

    #[tokio::test]
    async fn last_piece_waits_for_the_others_and_is_a_copy() {
        let used = Arc::new(());
        let bytes = CountedBytes {
            bytes: vec![b'x'; 2 * MAX_PIECE_BYTES + 1],
            _counter: Arc::clone(&used),
        };
        let mut body = body(Bytes::from_owner(bytes));
        let mut pieces = Vec::new();
        for rest in [MAX_PIECE_BYTES + 1, 1] {
            let piece = next(&mut body).await;
            assert_eq!(piece.len(), MAX_PIECE_BYTES);
            pieces.push(piece);
            assert_eq!(
                (body.is_end_stream(), body.size_hint().exact()),
                (false, Some(rest as u64))
            );
        }
        assert!(body.frame().now_or_never().is_none());
        pieces.pop();
        assert!(body.frame().now_or_never().is_none());
        let waiting = tokio::spawn(async move {
            let last = next(&mut body).await;
            assert!(body.is_end_stream());
            last
        });
        tokio::task::yield_now().await;
        drop(pieces);
        let last = waiting.await.expect("the last piece");
        assert_eq!((last.len(), Arc::strong_count(&used)), (1, 1));
    }

    #[tokio::test]
    async fn end_of_stream_waits_for_all_pieces() {
        let frames = stream::iter([Ok::<_, io::Error>(Frame::data(Bytes::from_static(b"x")))]);
        let mut body = MonitoredBody::new(BodyExt::boxed(StreamBody::new(frames)));
        let piece = next(&mut body).await;
        assert!(body.frame().now_or_never().is_none());
        drop(piece);
        assert!(body.frame().await.is_none());
    }

    fn piece(stream: &StreamProgress) -> Bytes {
        stream.count(Bytes::from_static(&[0; MAX_PIECE_BYTES]))
    }

    /// Lets the client accept a piece after each pause. Further pieces are always unsent.
    async fn accept_slowly(stream: &StreamProgress, pause: Duration) {
        let mut unsent = vec![piece(stream)];
        for _ in 0..1_000 {
            tokio::time::sleep(pause).await;
            unsent.push(piece(stream));
            unsent.remove(0);
        }
    }

    /// Returns whether a stream stalls whose client accepts a piece after each pause.
    async fn stalls(stream: &StreamProgress, pause: Duration) -> bool {
        tokio::select! {
            () = accept_slowly(stream, pause) => false,
            () = tokio::time::sleep(10 * LIMIT) => false,
            () = stream.stalled(LIMIT) => true,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn stream_stalls_if_its_client_accepts_less_than_the_minimum() {
        let connection = SendProgress::default();
        let stream = connection.stream();
        assert!(!stalls(&stream, Duration::from_secs(8)).await);
        assert!(stalls(&stream, Duration::from_secs(100)).await);
        // Many streams share the minimum, so each of them needs less.
        let others: Vec<_> = (0..100).map(|_| connection.stream()).collect();
        let unsent: Vec<Bytes> = others.iter().map(piece).collect();
        assert!(!stalls(&stream, Duration::from_secs(100)).await);
        assert!(stalls(&stream, Duration::from_secs(1_000)).await);
        drop(unsent);
        assert!(stalls(&stream, Duration::from_secs(100)).await);
    }

    #[tokio::test(start_paused = true)]
    async fn limit_below_a_second_has_a_minimum() {
        let stream = SendProgress::default().stream();
        let accepting = async {
            let mut unsent = vec![stream.count(Bytes::from_static(b"x"))];
            for _ in 0..1_000 {
                tokio::time::sleep(Duration::from_millis(10)).await;
                unsent.push(stream.count(Bytes::from_static(b"x")));
                unsent.remove(0);
            }
        };
        // The client accepts a hundred bytes per second.
        tokio::select! {
            () = accepting => panic!("the stream is not stalled"),
            () = stream.stalled(Duration::from_millis(900)) => {}
        }
    }

    #[tokio::test(start_paused = true)]
    async fn stream_stalls_although_pieces_are_passed_on_and_other_streams_progress() {
        let connection = SendProgress::default();
        let (stream, other) = (connection.stream(), connection.stream());
        let is_stalled = async |time: u64| {
            tokio::time::timeout(Duration::from_secs(time), stream.stalled(LIMIT))
                .await
                .is_ok()
        };
        assert!(!is_stalled(1_000).await, "nothing is unsent");
        let first = piece(&stream);
        assert!(!is_stalled(110).await, "too early");
        let next_pieces = async {
            let mut unsent = Vec::new();
            for _ in 0..100 {
                tokio::time::sleep(Duration::from_secs(10)).await;
                unsent.push(piece(&stream));
            }
        };
        tokio::select! {
            () = next_pieces => panic!("the stream is not stalled"),
            () = accept_slowly(&other, Duration::from_secs(1)) => panic!("the stream is not stalled"),
            is_stalled = is_stalled(200) => assert!(is_stalled),
        }
        drop(first);
        assert!(!is_stalled(1_000).await, "nothing is unsent");
    }

    #[tokio::test(start_paused = true)]
    async fn connection_stalls_only_if_no_stream_progresses() {
        let connection = SendProgress::default();
        let (ended, other) = (connection.stream(), connection.stream());
        let _last = piece(&ended);
        tokio::select! {
            () = accept_slowly(&other, Duration::from_secs(100)) => {}
            () = connection.stalled(LIMIT) => panic!("a stream has progress"),
        }
        tokio::time::timeout(2 * LIMIT, connection.stalled(LIMIT))
            .await
            .expect("a stalled connection");
    }

    #[tokio::test(start_paused = true)]
    async fn stalled_stream_is_dropped_although_it_is_not_polled_again() {
        let executor = SendProgress::default().executor(SocketAddr::from(([127, 0, 0, 1], 1)), LIMIT);
        let used = Arc::new(());
        let bytes = CountedBytes {
            bytes: vec![b'x'; 2 * MAX_PIECE_BYTES],
            _counter: Arc::clone(&used),
        };
        executor.execute(async move {
            let mut body = body(Bytes::from_owner(bytes));
            let _unsent = next(&mut body).await;
            std::future::pending::<()>().await;
        });
        tokio::time::sleep(LIMIT).await;
        assert_eq!(Arc::strong_count(&used), 2);
        tokio::time::sleep(LIMIT).await;
        assert_eq!(Arc::strong_count(&used), 1);
    }
}
