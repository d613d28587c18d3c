//! Drains bodies that no handler read. A small rest that arrives soon is read and discarded, so that the
//! connection can be reused. Otherwise the response announces that the connection closes.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};

/// Maximum number of bytes to discard.
const MAX_DRAINED_BYTES: u64 = 64 << 10;
/// How long a response waits for them; a client that sends the body right after the head needs less.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// State of the body of the connection's current request.
pub struct BodyState<S>(Mutex<UnreadState<S>>);

enum UnreadState<S> {
    /// The body was read to its end, or does not exist.
    Ended,
    /// A handler may be reading it; contains the announced length, if known.
    Held(Option<u64>),
    /// The handler stopped reading; contains the rest, unless it failed.
    Left(Option<S>),
}

impl<S> BodyState<S> {
    /// Returns the state of a connection before its first request.
    pub fn new() -> Self {
        Self(Mutex::new(UnreadState::Ended))
    }

    /// Starts a request with a body of the announced length, if known.
    pub fn begin(&self, announced: Option<u64>) {
        *self.state() = UnreadState::Held(announced);
    }

    /// Records that the body was read to its end.
    pub fn ended(&self) {
        *self.state() = UnreadState::Ended;
    }

    /// Records that the handler stopped after `read` bytes. `rest` is `None` if the body failed.
    pub fn record_rest(&self, rest: Option<S>, read: u64) {
        let mut state = self.state();
        let large = match &*state {
            UnreadState::Held(Some(announced)) => announced.saturating_sub(read) > MAX_DRAINED_BYTES,
            _ => false,
        };
        *state = UnreadState::Left(rest.filter(|_| !large));
    }

    /// Returns whether the client may still be sending.
    pub fn is_unread(&self) -> bool {
        !matches!(*self.state(), UnreadState::Ended)
    }

    /// Returns whether a rest exists that no handler will read.
    pub fn is_left(&self) -> bool {
        matches!(*self.state(), UnreadState::Left(_))
    }

    fn state(&self) -> MutexGuard<'_, UnreadState<S>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<S> {
        match &mut *self.state() {
            UnreadState::Left(rest) => rest.take(),
            UnreadState::Ended | UnreadState::Held(_) => None,
        }
    }
}

impl<S: Stream<Item = io::Result<Bytes>> + Unpin> BodyState<S> {
    /// Reads and discards the rest, unless it is too long or too slow.
    pub async fn drain(&self) {
        let Some(mut rest) = self.take() else { return };
        let drained = async {
            let mut count = 0_u64;
            while let Some(piece) = rest.next().await {
                let Ok(piece) = piece else { return false };
                count += piece.len() as u64;
                if count > MAX_DRAINED_BYTES {
                    return false;
                }
            }
            true
        };
        if let Ok(true) = tokio::time::timeout(DRAIN_TIMEOUT, drained).await {
            self.ended();
        }
    }
}
