//! Byte stream of a connection: fails writes to slow clients and intercepts error responses of the HTTP library.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;

use super::invalid_request;
use super::write_rate::WriteRate;

/// Limits on time and bytes for draining unread input at the end, so that the client can read the response.
/// Closing earlier would make the client's system discard the response.
const LINGER_TIME: Duration = Duration::from_secs(2);
const LINGER_BYTES: u64 = 64 << 20;

/// Counts the reads and writes of a connection that transferred data.
#[derive(Debug, Clone, Default)]
pub struct Traffic(Arc<AtomicU64>);

impl Traffic {
    /// Returns the number of reads and writes so far.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A connection below the HTTP library.
///
/// The library rejects a malformed or huge head with a response without body, which no middleware sees. Such
/// a response is buffered here until the connection has ended and reported the cause. After every other
/// response the library reads again or closes.
pub struct ClientTransport {
    stream: TcpStream,
    /// Bytes that are read first.
    start: Bytes,
    /// A buffered response that looks like an error of the library.
    buffered: Option<Bytes>,
    write_rate: WriteRate,
    traffic: Traffic,
}

impl ClientTransport {
    /// Wraps a stream.
    pub fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            start: Bytes::new(),
            buffered: None,
            write_rate: WriteRate::default(),
            traffic: Traffic::default(),
        }
    }

    /// Returns the counter of the connection.
    pub fn traffic(&self) -> Traffic {
        self.traffic.clone()
    }

    /// Returns bytes to the stream that were already read.
    pub fn prepend(&mut self, start: Bytes) {
        self.start = start;
    }

    /// Takes the buffered error response, so that it is not sent.
    pub fn take_library_response(&mut self) -> Option<Bytes> {
        self.buffered.take()
    }

    /// Sends a last response and ignores errors.
    pub async fn answer(&mut self, bytes: &[u8]) {
        let _ = self.write_all(bytes).await;
    }

    /// Closes the connection. If `unread`, waits until the client had time to read the response.
    pub async fn close(mut self, unread: bool) {
        if self.shutdown().await.is_err() || !unread {
            return;
        }
        let mut rest = (&mut self.stream).take(LINGER_BYTES);
        let mut nowhere = tokio::io::sink();
        let drained = tokio::io::copy(&mut rest, &mut nowhere);
        let _ = tokio::time::timeout(LINGER_TIME, drained).await;
    }

    /// Sends the buffered response, which was not an error of the library.
    fn release(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(mut buffered) = self.buffered.take() {
            let written = Pin::new(&mut self.stream).poll_write(context, &buffered);
            let written = self.watch(context, written);
            if let Poll::Ready(Ok(count)) = &written {
                buffered.advance((*count).min(buffered.len()));
            }
            if !buffered.is_empty() {
                self.buffered = Some(buffered);
            }
            ready!(written)?;
        }
        Poll::Ready(Ok(()))
    }

    /// Fails a write to a client that accepts data too slowly.
    fn watch(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.traffic.add();
        }
        self.write_rate.check(context, written)
    }
}

impl AsyncRead for ClientTransport {
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
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_ready() {
            self.traffic.add();
        }
        if buffer.filled().len() > before {
            self.write_rate.restart();
        }
        read
    }
}

impl AsyncWrite for ClientTransport {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.release(context))?;
        if invalid_request::is_library_response(bytes) {
            self.buffered = Some(Bytes::copy_from_slice(bytes));
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
