//! Progress of an upload, so that a remote repository that stops reading cannot delay it forever.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use tokio::time::Instant;

/// Progress that the stream and its observer share.
#[derive(Debug, Clone)]
pub(super) struct UploadProgress(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    last: Mutex<Instant>,
    is_sent: AtomicBool,
    is_broken: AtomicBool,
}

impl UploadProgress {
    pub(super) fn new() -> Self {
        Self(Arc::new(Shared {
            last: Mutex::new(Instant::now()),
            is_sent: AtomicBool::new(false),
            is_broken: AtomicBool::new(false),
        }))
    }

    fn advance(&self) {
        *self.0.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Records that the whole body was sent.
    pub(super) fn end(&self) {
        self.advance();
        self.0.is_sent.store(true, Ordering::Relaxed);
    }

    /// Returns whether the body could not be read here.
    pub(super) fn is_broken(&self) -> bool {
        self.0.is_broken.load(Ordering::Relaxed)
    }

    /// Returns when nothing was sent for `pause`, or when the body was sent and `response` has passed.
    pub(super) async fn stalled(&self, pause: Duration, response: Duration) {
        loop {
            let limit = if self.0.is_sent.load(Ordering::Relaxed) {
                response
            } else {
                pause
            };
            let last = *self.0.last.lock().unwrap_or_else(PoisonError::into_inner);
            let left = limit.saturating_sub(last.elapsed());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left).await;
        }
    }
}

/// A stream that records its progress.
pub(super) struct WatchedStream<S> {
    pub(super) inner: Pin<Box<S>>,
    pub(super) progress: UploadProgress,
}

impl<S: Stream<Item = io::Result<Bytes>>> Stream for WatchedStream<S> {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.inner.as_mut().poll_next(context);
        match &next {
            Poll::Ready(Some(Ok(_))) => self.progress.advance(),
            Poll::Ready(Some(Err(_))) => self.progress.0.is_broken.store(true, Ordering::Relaxed),
            Poll::Ready(None) => self.progress.end(),
            Poll::Pending => {}
        }
        next
    }
}
