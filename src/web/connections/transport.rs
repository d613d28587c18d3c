//! The bytes of a connection: writes that a client never takes, and refusals that are not ours.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

use super::refusal;

/// How long a client may take nothing of what it is sent.
const STALL: Duration = Duration::from_secs(120);
/// How long, and how much, a client may go on sending what nobody reads, so that it gets to read the answer: to close
/// before would make its system throw the answer away.
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES: u64 = 64 << 20;

/// A connection under the HTTP library.
///
/// What the library itself refuses (a malformed or huge head) it answers with a head and no body, past every layer
/// above. It is held back here until the connection has ended and said whether that was so: the library reads again
/// or closes after every other answer.
pub struct Transport {
    stream: TcpStream,
    /// Read before anything else.
    start: Bytes,
    /// What looks like a refusal of the library and is not sent yet.
    held: Option<Bytes>,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Transport {
    /// Over this stream.
    pub fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            start: Bytes::new(),
            held: None,
            stalled: None,
        }
    }

    /// Gives bytes back that were read already.
    pub fn begin_with(&mut self, start: Bytes) {
        self.start = start;
    }

    /// The bare refusal that was held back last; then it is not sent.
    pub fn take_bare(&mut self) -> Option<Bytes> {
        self.held.take()
    }

    /// Sends a last answer. A client that is gone misses nothing.
    pub async fn answer(&mut self, bytes: &[u8]) {
        let _ = self.write_all(bytes).await;
    }

    /// Closes it; when the client may still be sending, only after it had the time to see the answer.
    pub async fn close(mut self, unread: bool) {
        if self.shutdown().await.is_err() || !unread {
            return;
        }
        let mut rest = (&mut self.stream).take(LINGER_BYTES);
        let mut nowhere = tokio::io::sink();
        let drained = tokio::io::copy(&mut rest, &mut nowhere);
        let _ = tokio::time::timeout(LINGER, drained).await;
    }

    /// Sends what was held back: it was no refusal.
    fn release(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(mut held) = self.held.take() {
            let written = Pin::new(&mut self.stream).poll_write(context, &held);
            let written = self.watch(context, written);
            if let Poll::Ready(Ok(count)) = &written {
                held.advance((*count).min(held.len()));
            }
            if !held.is_empty() {
                self.held = Some(held);
            }
            ready!(written)?;
        }
        Poll::Ready(Ok(()))
    }

    /// Fails a write that makes no progress for too long.
    fn watch<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stalled = self
            .stalled
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(STALL)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Transport {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.release(context))?;
        if !self.start.is_empty() {
            let count = self.start.len().min(buffer.remaining());
            buffer.put_slice(&self.start.split_to(count));
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.release(context))?;
        if refusal::is_bare(bytes) {
            self.held = Some(Bytes::copy_from_slice(bytes));
            return Poll::Ready(Ok(bytes.len()));
        }
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut filled = slices.iter().filter(|slice| !slice.is_empty());
        if let (Some(only), None) = (filled.next(), filled.next()) {
            return self.poll_write(context, only);
        }
        ready!(self.release(context))?;
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.watch(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.release(context))?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
