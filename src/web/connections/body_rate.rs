//! Minimum rate and chunk size of a request body.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use tokio::time::{Instant, Sleep};

use super::drain_body::BodyState;
use crate::observability::table::RECEIVED_BYTES;

/// Maximum time to wait for the next chunk.
const CHUNK_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum total time to wait, plus one second for each [`MIN_RATE`] bytes.
const GRACE_PERIOD: Duration = Duration::from_secs(60);
/// Minimum rate in bytes per second, after the grace period is used up; also of the client that receives a response.
pub const MIN_RATE: u64 = 1 << 10;
/// Number of chunks without a minimum size.
const UNLIMITED_CHUNKS: u64 = 1 << 16;
/// Minimum average size of further chunks, in bytes. Each chunk costs about as much as a thousand bytes.
const MIN_CHUNK_BYTES: u64 = 16;

/// A body that fails if it arrives too slowly ([`io::ErrorKind::TimedOut`]) or in too many small chunks
/// ([`io::ErrorKind::InvalidData`]). Time spent by the server does not count.
pub struct RateLimitedBody<S> {
    /// None after the end or a failure.
    inner: Option<S>,
    ended: bool,
    unread: Option<Arc<BodyState<S>>>,
    pieces: u64,
    bytes: u64,
    waited: Duration,
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl<S> RateLimitedBody<S> {
    /// Monitors a body. `unread` is notified of its end, or gets the rest that was not read.
    pub fn new(inner: S, unread: Option<Arc<BodyState<S>>>) -> Self {
        Self {
            inner: Some(inner),
            ended: false,
            unread,
            pieces: 0,
            bytes: 0,
            waited: Duration::ZERO,
            waiting: None,
        }
    }

    /// Returns how long the body may still take now.
    fn remaining_time(&self) -> Duration {
        let earned = Duration::from_secs(self.bytes / MIN_RATE);
        CHUNK_TIMEOUT.min((GRACE_PERIOD + earned).saturating_sub(self.waited))
    }
}

impl<S> Stream for RateLimitedBody<S>
where
    S: Stream<Item = io::Result<Bytes>> + Unpin,
{
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(inner) = &mut self.inner else {
            return Poll::Ready(None);
        };
        let Poll::Ready(next) = Pin::new(inner).poll_next(context) else {
            let patience = self.remaining_time();
            let (_, end) = self
                .waiting
                .get_or_insert_with(|| (Instant::now(), Box::pin(tokio::time::sleep(patience))));
            ready!(end.as_mut().poll(context));
            self.inner = None;
            return Poll::Ready(Some(Err(io::ErrorKind::TimedOut.into())));
        };
        if let Some((since, _)) = self.waiting.take() {
            self.waited += since.elapsed();
        }
        match &next {
            Some(Ok(piece)) => {
                self.pieces += 1;
                self.bytes += piece.len() as u64;
                metrics::counter!(RECEIVED_BYTES.name).increment(piece.len() as u64);
                if self.pieces > UNLIMITED_CHUNKS && self.bytes < self.pieces * MIN_CHUNK_BYTES {
                    self.inner = None;
                    return Poll::Ready(Some(Err(io::ErrorKind::InvalidData.into())));
                }
            }
            Some(Err(_)) => self.inner = None,
            None => {
                self.inner = None;
                self.ended = true;
                if let Some(unread) = &self.unread {
                    unread.ended();
                }
            }
        }
        Poll::Ready(next)
    }
}

impl<S> Drop for RateLimitedBody<S> {
    fn drop(&mut self) {
        if let (Some(unread), false) = (&self.unread, self.ended) {
            unread.record_rest(self.inner.take(), self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{StreamExt, stream};

    use super::*;

    fn drips(size: usize, pause: Duration) -> impl Stream<Item = io::Result<Bytes>> + Unpin {
        Box::pin(stream::unfold((), move |()| async move {
            tokio::time::sleep(pause).await;
            Some((Ok(Bytes::from(vec![b'x'; size])), ()))
        }))
    }

    /// Returns the number of bytes before the body failed, and the reason.
    async fn read_until_error(
        mut body: RateLimitedBody<impl Stream<Item = io::Result<Bytes>> + Unpin>,
    ) -> (u64, io::ErrorKind) {
        loop {
            if let Err(error) = body.next().await.expect("no end") {
                return (body.bytes, error.kind());
            }
            assert!(body.bytes < 100 << 20, "never refused");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn stalled_body_times_out() {
        let began = Instant::now();
        let body = RateLimitedBody::new(drips(1 << 20, CHUNK_TIMEOUT * 2), None);
        assert_eq!(read_until_error(body).await, (0, io::ErrorKind::TimedOut));
        assert_eq!(began.elapsed().as_secs(), CHUNK_TIMEOUT.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn slow_body_times_out_after_grace_period() {
        let began = Instant::now();
        let body = RateLimitedBody::new(drips(1, Duration::from_secs(1)), None);
        let (bytes, kind) = read_until_error(body).await;
        assert_eq!(kind, io::ErrorKind::TimedOut);
        assert!((50..=61).contains(&bytes), "{bytes}");
        assert!(began.elapsed() <= GRACE_PERIOD + Duration::from_secs(2));
    }

    #[tokio::test(start_paused = true)]
    async fn slow_but_steady_body_is_accepted() {
        let mut body = RateLimitedBody::new(drips(4 << 10, Duration::from_secs(2)).take(500), None);
        while let Some(piece) = body.next().await {
            piece.expect("no refusal");
        }
        assert_eq!(body.bytes, 500 * (4 << 10));
    }

    #[tokio::test]
    async fn body_with_too_many_tiny_chunks_is_rejected() {
        let ones = stream::repeat_with(|| Ok(Bytes::from_static(b"x")));
        assert_eq!(
            read_until_error(RateLimitedBody::new(ones, None)).await,
            (UNLIMITED_CHUNKS + 1, io::ErrorKind::InvalidData)
        );
        let larger = stream::repeat_with(|| Ok(Bytes::from_static(&[b'x'; 32])));
        let mut body = RateLimitedBody::new(larger.take(200_000), None);
        while let Some(piece) = body.next().await {
            piece.expect("no refusal");
        }
    }

    #[tokio::test]
    async fn fully_read_body_is_not_unread() {
        let unread = Arc::new(BodyState::new());
        unread.begin(None);
        let mut body = RateLimitedBody::new(stream::iter([Ok(Bytes::new())]), Some(Arc::clone(&unread)));
        while body.next().await.is_some() {}
        assert!(!unread.is_unread());
    }
}
