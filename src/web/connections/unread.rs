//! What a client sends though nobody reads it: read and thrown away where it is little and comes soon, so that the
//! connection can be used again; otherwise the answer says that the connection ends.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};

/// The most bytes that are read for nothing.
const SMALL: u64 = 64 << 10;
/// How long an answer waits for them: a client that sends the body right after the head has sent it by then.
const PATIENCE: Duration = Duration::from_secs(1);

/// The body of the request that a connection is at.
pub struct Unread<S>(Mutex<State<S>>);

enum State<S> {
    /// It was read to its end, or there is none.
    Ended,
    /// Somebody may be reading it. So many bytes are announced, where that is known.
    Held(Option<u64>),
    /// Nobody reads on; this is the rest, unless it is of no use.
    Left(Option<S>),
}

impl<S> Unread<S> {
    /// Of a connection that nothing was asked on yet.
    pub fn new() -> Self {
        Self(Mutex::new(State::Ended))
    }

    /// A request begins, with a body for which so many bytes are announced, where that is known.
    pub fn begin(&self, announced: Option<u64>) {
        *self.state() = State::Held(announced);
    }

    /// The body was read to its end.
    pub fn ended(&self) {
        *self.state() = State::Ended;
    }

    /// Nobody reads on after so many bytes; this is the rest, none where it was refused.
    pub fn left(&self, rest: Option<S>, read: u64) {
        let mut state = self.state();
        let large = match &*state {
            State::Held(Some(announced)) => announced.saturating_sub(read) > SMALL,
            _ => false,
        };
        *state = State::Left(rest.filter(|_| !large));
    }

    /// Whether the client may still be sending.
    pub fn is_unread(&self) -> bool {
        !matches!(*self.state(), State::Ended)
    }

    /// Whether there is something that nobody is going to read.
    pub fn is_left(&self) -> bool {
        matches!(*self.state(), State::Left(_))
    }

    fn state(&self) -> MutexGuard<'_, State<S>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<S> {
        match &mut *self.state() {
            State::Left(rest) => rest.take(),
            State::Ended | State::Held(_) => None,
        }
    }
}

impl<S: Stream<Item = io::Result<Bytes>> + Unpin> Unread<S> {
    /// Reads what is left, unless it turns out to be more than a little, or comes too slowly.
    pub async fn drain(&self) {
        let Some(mut rest) = self.take() else { return };
        let drained = async {
            let mut count = 0_u64;
            while let Some(piece) = rest.next().await {
                let Ok(piece) = piece else { return false };
                count += piece.len() as u64;
                if count > SMALL {
                    return false;
                }
            }
            true
        };
        if let Ok(true) = tokio::time::timeout(PATIENCE, drained).await {
            self.ended();
        }
    }
}
