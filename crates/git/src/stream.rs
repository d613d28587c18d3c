//! Input and output of programs as streams with backpressure.

use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::early_output::{EarlyOutput, Overflow};
use super::process::{Program, RunningProgram};
use super::{Error, Repository, Result};

/// Maximum number of concurrent programs that exchange data with clients. They mostly wait for the network,
/// so they do not use the permits of the store.
const TRANSFERS: usize = 64;
/// How long a client waits for a permit.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a client may pause while it sends a request or receives a response.
const IDLE: Duration = Duration::from_secs(120);
/// Size of one read, in bytes.
const CHUNK: usize = 64 * 1024;
/// Number of chunks buffered for a slow reader.
const CHUNKS_AHEAD: usize = 4;

static PERMITS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(TRANSFERS)));

/// Stream of bytes. If it is dropped before its end, the program is killed.
pub struct ByteStream {
    chunks: mpsc::Receiver<io::Result<Bytes>>,
    /// Resolves when the response may begin; none when it may from the start.
    begun: Option<oneshot::Receiver<()>>,
}

impl Stream for ByteStream {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.chunks.poll_recv(context)
    }
}

impl ByteStream {
    /// Waits until the body of the request was read whole. A response must not begin before: proxies stop forwarding a body
    /// once they have received a response head.
    ///
    /// # Errors
    /// [`Error::Timeout`] for a body that came too slowly, [`Error::Protocol`] for one that broke off, and
    /// [`Error::LimitExceeded`].
    pub async fn begun(&mut self) -> Result<()> {
        let Some(begun) = self.begun.take() else {
            return Ok(());
        };
        if begun.await.is_ok() {
            return Ok(());
        }
        // The exchange ended before, and its error is all that it has sent.
        let error = match self.chunks.recv().await {
            Some(Err(error)) => error.downcast::<Error>().unwrap_or_else(Error::Io),
            Some(Ok(_)) | None => disconnected(),
        };
        Err(match error {
            Error::Io(error) if error.kind() == io::ErrorKind::TimedOut => Error::Timeout,
            Error::Io(_) => Error::Protocol("The body of the request ended too soon."),
            error => error,
        })
    }

    /// Collects the whole stream.
    ///
    /// # Errors
    /// [`Error::LimitExceeded`] above `limit` bytes, and errors of the stream.
    pub async fn collect(mut self, limit: usize) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        while let Some(chunk) = self.chunks.recv().await {
            bytes.extend_from_slice(&chunk?);
            if bytes.len() > limit {
                return Err(Error::LimitExceeded("the stream is longer than it may be"));
            }
        }
        Ok(bytes)
    }
}

/// Exchange of data between a program and a client.
pub(super) struct TransferExchange<R> {
    /// The input of the program.
    pub(super) body: R,
    /// Maximum length of the input in bytes.
    pub(super) body_limit: u64,
    /// Whether the program may finish after the whole body is read, even if the client disconnects.
    pub(super) durable: bool,
    /// What happens to much output that is written before the body was read.
    pub(super) overflow: Overflow,
}

impl Repository {
    /// Starts a program that exchanges data with a client.
    pub(super) async fn start_transfer(&self, program: Program) -> Result<RunningProgram> {
        let starting = self.start_with_permits(program, Arc::clone(&PERMITS));
        let waited = tokio::time::timeout(SEND_TIMEOUT, starting).await;
        waited.map_err(|_| Error::Busy("too many transfers are under way"))?
    }
}

/// Returns `first` and the output of a program; ends in an error if the program fails or exceeds its time
/// limit.
pub(super) fn output(mut running: RunningProgram, first: Bytes) -> ByteStream {
    let (sender, receiver) = mpsc::channel(CHUNKS_AHEAD);
    tokio::spawn(async move {
        let stdout = running.take_stdout();
        let result = running.within(async {
            if !first.is_empty() {
                send(&sender, first).await?;
            }
            tokio::select! {
                done = forward(Bytes::new(), stdout, &sender, false) => done,
                () = sender.closed() => Err(disconnected()),
            }
        });
        let result = match result.await {
            Ok(()) => running.finish().await.map(drop),
            Err(error) => Err(error),
        };
        if let Err(error) = result {
            // The program is killed here at the latest, even if the receiver is gone.
            let _ = sender.try_send(Err(io::Error::other(error)));
        }
    });
    ByteStream {
        chunks: receiver,
        begun: None,
    }
}

/// Returns the output of a program that reads a client's body; `done` runs when it ends. Output that is written before the
/// body was read is kept until then, see [`ByteStream::begun`].
///
/// Only `done` gets the result of the program, because the program has already written everything the client
/// needs.
pub(super) fn exchange<R, F>(running: RunningProgram, exchange: TransferExchange<R>, done: F) -> ByteStream
where
    R: AsyncRead + Send + Unpin + 'static,
    F: FnOnce(Result<()>) + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(CHUNKS_AHEAD);
    let (begin, begun) = oneshot::channel();
    tokio::spawn(async move {
        let result = run_exchange(running, exchange, &sender, begin).await;
        let failure = match &result {
            Err(Error::Timeout) => Some(io::ErrorKind::TimedOut.into()),
            Err(Error::LimitExceeded(text)) => Some(io::Error::other(Error::LimitExceeded(text))),
            Err(Error::Io(error)) => Some(io::Error::new(error.kind(), error.to_string())),
            _ => None,
        };
        if let Some(failure) = failure {
            let _ = sender.try_send(Err(failure));
        }
        done(result);
    });
    ByteStream {
        chunks: receiver,
        begun: Some(begun),
    }
}

async fn run_exchange<R: AsyncRead + Unpin>(
    mut running: RunningProgram,
    exchange: TransferExchange<R>,
    sender: &mpsc::Sender<io::Result<Bytes>>,
    begin: oneshot::Sender<()>,
) -> Result<()> {
    let (stdin, mut stdout) = (running.take_stdin(), running.take_stdout());
    let read = CancellationToken::new();
    let work = async {
        let mut pumped = pin!(async {
            pump(exchange.body, exchange.body_limit, stdin).await?;
            read.cancel();
            Ok::<_, Error>(())
        });
        let mut forwarded = pin!(async {
            let early = early_output(&mut stdout, &read, exchange.overflow).await?;
            let _ = begin.send(());
            forward(early, stdout, sender, exchange.durable).await
        });
        tokio::select! {
            // A push that was received completely is executed, even if the client disconnects at the same
            // moment.
            biased;
            // The program finished its output; a client reads it only after it has sent its whole body.
            done = &mut forwarded => {
                done?;
                return tokio::select! {
                    drained = &mut pumped => drained,
                    () = sender.closed() => Err(disconnected()),
                };
            }
            pumped = &mut pumped => pumped?,
            () = sender.closed() => return Err(disconnected()),
        }
        if exchange.durable {
            return forwarded.await;
        }
        tokio::select! {
            done = &mut forwarded => done,
            () = sender.closed() => Err(disconnected()),
        }
    };
    running.within(work).await?;
    running.finish().await.map(drop)
}

/// Copies a body to a program. When the program stops reading, the rest is read and dropped.
async fn pump(mut body: impl AsyncRead + Unpin, limit: u64, mut stdin: Option<ChildStdin>) -> Result<()> {
    let mut chunk = BytesMut::with_capacity(CHUNK);
    let mut total = 0;
    loop {
        chunk.clear();
        let read = tokio::time::timeout(IDLE, body.read_buf(&mut chunk))
            .await
            .map_err(|_| Error::Timeout)??;
        total += read as u64;
        if total > limit {
            return Err(Error::LimitExceeded("the request is larger than it may be"));
        }
        if read == 0 {
            break;
        }
        if let Some(pipe) = &mut stdin
            && pipe.write_all(&chunk).await.is_err()
        {
            stdin = None;
        }
    }
    Ok(())
}

/// Reads the output of a program until the body was read or the buffer is full.
async fn early_output(
    stdout: &mut Option<ChildStdout>,
    read: &CancellationToken,
    overflow: Overflow,
) -> Result<Bytes> {
    let mut early = EarlyOutput::new(overflow);
    while let Some(program) = stdout {
        if !early.has_room() {
            return Ok(early.into_bytes());
        }
        let count = tokio::select! {
            () = read.cancelled() => return Ok(early.into_bytes()),
            count = program.read_buf(early.buffer()) => count?,
        };
        if count == 0 {
            *stdout = None;
        }
    }
    read.cancelled().await;
    Ok(early.into_bytes())
}

/// Copies the output of a program to the stream, after its early output; if `durable`, to the end even without a receiver.
async fn forward(
    early: Bytes,
    stdout: Option<ChildStdout>,
    sender: &mpsc::Sender<io::Result<Bytes>>,
    durable: bool,
) -> Result<()> {
    let mut next = (!early.is_empty()).then_some(early);
    let mut stdout = stdout;
    let mut listened_to = true;
    loop {
        let chunk = match (next.take(), &mut stdout) {
            (Some(early), _) => early,
            (None, None) => return Ok(()),
            (None, Some(stdout)) => {
                let mut chunk = BytesMut::with_capacity(CHUNK);
                if stdout.read_buf(&mut chunk).await? == 0 {
                    return Ok(());
                }
                chunk.freeze()
            }
        };
        if listened_to && let Err(error) = send(sender, chunk).await {
            if !durable {
                return Err(error);
            }
            listened_to = false;
        }
    }
}

/// Sends a chunk; a client that accepts none within the idle limit counts as disconnected.
async fn send(sender: &mpsc::Sender<io::Result<Bytes>>, chunk: Bytes) -> Result<()> {
    let sent = tokio::time::timeout(IDLE, sender.send(Ok(chunk))).await;
    sent.map_err(|_| Error::Timeout)?.map_err(|_| disconnected())
}

fn disconnected() -> Error {
    Error::Io(io::Error::new(
        io::ErrorKind::ConnectionAborted,
        "the client went away",
    ))
}
