//! Progress of response bodies over HTTP/2.
//!
//! A client decides how much of a body it accepts. If it accepts nothing, nothing is written to the connection, so the time
//! limit of writes does not apply. A body is therefore sent in pieces, which count until the HTTP library has written them.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use hyper::body::{Body, Frame, SizeHint};

/// Maximum size of a piece in bytes, which is the default size of a frame.
const MAX_PIECE_BYTES: usize = 16 << 10;
/// Number of checks within the time limit.
const CHECKS: u32 = 4;

/// Progress of all responses of a connection. Clones share it.
#[derive(Clone, Default)]
pub struct SendProgress(Arc<PieceCounts>);

#[derive(Default)]
struct PieceCounts {
    /// Number of pieces that the HTTP library has not written yet.
    unsent: AtomicUsize,
    /// Number of pieces that were passed to the HTTP library, and of those that it has written.
    changes: AtomicU64,
}

impl SendProgress {
    /// Returns a body whose progress is counted.
    pub fn monitor(&self, body: BoxBody<Bytes, io::Error>) -> MonitoredBody {
        MonitoredBody {
            inner: body,
            rest: Bytes::new(),
            progress: self.clone(),
        }
    }

    /// Resolves when pieces of responses are unsent and the client has accepted none of them for `limit`. Time in which the
    /// server has nothing to send does not count.
    pub async fn stalled(&self, limit: Duration) {
        let (mut seen, mut quiet_checks) = (self.changes(), 0);
        while quiet_checks < CHECKS {
            tokio::time::sleep(limit / CHECKS).await;
            let changes = self.changes();
            let is_quiet = changes == seen && self.0.unsent.load(Ordering::Relaxed) > 0;
            quiet_checks = if is_quiet { quiet_checks + 1 } else { 0 };
            seen = changes;
        }
    }

    fn changes(&self) -> u64 {
        self.0.changes.load(Ordering::Relaxed)
    }

    /// Returns a piece that counts until it is dropped.
    fn count(&self, piece: Bytes) -> Bytes {
        self.0.unsent.fetch_add(1, Ordering::Relaxed);
        self.0.changes.fetch_add(1, Ordering::Relaxed);
        Bytes::from_owner(UnsentPiece {
            bytes: piece,
            progress: self.clone(),
        })
    }
}

/// A piece of a body that is not yet written.
struct UnsentPiece {
    bytes: Bytes,
    progress: SendProgress,
}

impl AsRef<[u8]> for UnsentPiece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for UnsentPiece {
    fn drop(&mut self) {
        let PieceCounts { unsent, changes } = &*self.progress.0;
        unsent.fetch_sub(1, Ordering::Relaxed);
        changes.fetch_add(1, Ordering::Relaxed);
    }
}

/// A response body that is sent in pieces.
pub struct MonitoredBody {
    inner: BoxBody<Bytes, io::Error>,
    /// The rest of the last chunk of the body.
    rest: Bytes,
    progress: SendProgress,
}

impl Body for MonitoredBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.rest.is_empty() {
            let frame = match ready!(Pin::new(&mut self.inner).poll_frame(context)) {
                Some(Ok(frame)) => frame,
                end => return Poll::Ready(end),
            };
            match frame.into_data() {
                Ok(chunk) if chunk.is_empty() => return Poll::Ready(Some(Ok(Frame::data(chunk)))),
                Ok(chunk) => self.rest = chunk,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
        let size = self.rest.len().min(MAX_PIECE_BYTES);
        let piece = self.rest.split_to(size);
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
    use http_body_util::{BodyExt, Full};

    use super::*;

    fn body(size: usize) -> BoxBody<Bytes, io::Error> {
        Full::new(Bytes::from(vec![b'x'; size]))
            .map_err(|never| match never {})
            .boxed()
    }

    #[tokio::test]
    async fn body_is_sent_in_pieces_that_count_until_they_are_dropped() {
        let progress = SendProgress::default();
        let mut body = progress.monitor(body(MAX_PIECE_BYTES + 1));
        let (mut pieces, mut sizes) = (Vec::new(), Vec::<usize>::new());
        while !body.is_end_stream() {
            assert_eq!(
                body.size_hint().exact(),
                Some((MAX_PIECE_BYTES + 1 - sizes.iter().sum::<usize>()) as u64)
            );
            let piece = body
                .frame()
                .await
                .expect("a frame")
                .expect("a piece")
                .into_data()
                .expect("data");
            sizes.push(piece.len());
            pieces.push(piece);
        }
        assert_eq!(
            (sizes.as_slice(), progress.0.unsent.load(Ordering::Relaxed)),
            (&[MAX_PIECE_BYTES, 1][..], 2)
        );
        drop(pieces);
        assert_eq!(
            (progress.changes(), progress.0.unsent.load(Ordering::Relaxed)),
            (4, 0)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn only_unsent_pieces_without_progress_stall() {
        let progress = SendProgress::default();
        let limit = Duration::from_secs(120);
        let is_stalled =
            async |time: Duration| tokio::time::timeout(time, progress.stalled(limit)).await.is_ok();
        assert!(!is_stalled(Duration::from_secs(1_000)).await, "nothing is unsent");
        let first = progress.count(Bytes::from_static(b"x"));
        assert!(!is_stalled(Duration::from_secs(110)).await, "too early");
        let next_piece = async {
            tokio::time::sleep(Duration::from_secs(100)).await;
            progress.count(Bytes::from_static(b"x"))
        };
        let (stalled, _second) = tokio::join!(is_stalled(Duration::from_secs(200)), next_piece);
        assert!(!stalled, "a piece was passed on");
        drop(first);
        assert!(is_stalled(Duration::from_secs(200)).await);
    }
}
