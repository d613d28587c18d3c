//! Input and output of programs as streams with backpressure.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::early_output::{EarlyOutput, Overflow};
use super::process::{Program, RunningProgram};
use super::push_explanation::PushExplanation;
use super::{Error, Repository, Result};

/// How long a client may pause while it sends a request or receives a response.
const IDLE: Duration = Duration::from_secs(120);
/// Size of one read, in bytes.
const CHUNK: usize = 64 * 1024;
/// Number of chunks buffered for a slow reader.
const CHUNKS_AHEAD: usize = 4;
/// Maximum time that a program occupies a slot while its client sends nothing.
const MAX_SILENCE: Duration = Duration::from_secs(1);
/// Maximum time that a program keeps memory while its client sends nothing.
const MAX_SILENCE_WITH_MEMORY: Duration = Duration::from_secs(30);
/// Number of bytes that a client sends to earn a second of silence.
const BYTES_PER_SECOND: u32 = 64 * 1024;

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
            Error::Io(error) => body_error(&error),
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
    ///
    /// # Errors
    /// [`Error::Busy`] if no slot becomes available, and the errors of [`Self::start`].
    pub(super) async fn start_transfer(&self, program: Program) -> Result<RunningProgram> {
        let slots = &self.shared().slots.transfers;
        let permit = self.slot(slots, "too many transfers are in progress").await?;
        self.start_in_slot(program, slots, permit).await
    }
}

/// Reads the next chunk of a request; 0 at its end.
///
/// # Errors
/// [`Error::Timeout`] for a client that sends nothing, and [`Error::Protocol`] for a body that broke off.
pub(super) async fn read_request(
    body: &mut (impl AsyncRead + Unpin),
    buffer: &mut BytesMut,
) -> Result<usize> {
    let read = tokio::time::timeout(IDLE, body.read_buf(buffer)).await;
    read.map_err(|_| Error::Timeout)?
        .map_err(|error| body_error(&error))
}

/// Returns the error of a request whose body could not be read.
fn body_error(error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::TimedOut => Error::Timeout,
        _ => Error::Protocol("The body of the request ended too soon."),
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
                done = forward(Bytes::new(), stdout, &sender, Forwarding::default()) => done,
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
            pump(&running, exchange.body, exchange.body_limit, stdin).await?;
            read.cancel();
            Ok::<_, Error>(())
        });
        let mut forwarded = pin!(async {
            let early = early_output(&mut stdout, &read, exchange.overflow).await?;
            let _ = begin.send(());
            let forwarding = Forwarding {
                durable: exchange.durable,
                explanation: running
                    .max_allocation()
                    .filter(|_| exchange.overflow == Overflow::DropsProgress)
                    .map(PushExplanation::new),
            };
            forward(early, stdout, sender, forwarding).await
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

/// Copies a body to a program, which is paused while its client sends nothing. When the program stops reading, the rest
/// is read and dropped.
async fn pump(
    running: &RunningProgram,
    mut body: impl AsyncRead + Unpin,
    limit: u64,
    mut stdin: Option<ChildStdin>,
) -> Result<()> {
    let mut chunk = BytesMut::with_capacity(CHUNK);
    let mut total = 0;
    let mut patience = Patience::new(MAX_SILENCE);
    let mut patience_with_memory = Patience::new(MAX_SILENCE_WITH_MEMORY);
    loop {
        chunk.clear();
        let patiences = [&mut patience, &mut patience_with_memory];
        let read = next_chunk(running, &mut body, &mut chunk, patiences).await?;
        total += read as u64;
        if total > limit {
            return Err(Error::LimitExceeded("the request is larger than it may be"));
        }
        if read == 0 {
            break;
        }
        if let Some(pipe) = &mut stdin {
            running.resume().await?;
            if pipe.write_all(&chunk).await.is_err() {
                stdin = None;
            }
        }
    }
    drop(stdin);
    running.resume().await
}

/// Reads the next chunk of a body; 0 at its end. Pauses the program if that takes too long. Fails if a paused program keeps
/// memory for too long, which others wait for.
async fn next_chunk(
    running: &RunningProgram,
    body: &mut (impl AsyncRead + Unpin),
    chunk: &mut BytesMut,
    [patience, patience_with_memory]: [&mut Patience; 2],
) -> Result<usize> {
    let began = Instant::now();
    let mut reading = pin!(tokio::time::timeout(IDLE, body.read_buf(chunk)));
    let outcome = tokio::select! {
        // A client whose data is already there does not lose the slot.
        biased;
        outcome = &mut reading => outcome,
        () = tokio::time::sleep(patience.rest()) => {
            let limit = match running.pause() {
                true => patience_with_memory.rest(),
                false => IDLE,
            };
            tokio::time::timeout(limit, reading).await.map_err(|_| Error::Timeout)?
        }
    };
    let read = outcome.map_err(|_| Error::Timeout)??;
    patience.record(began.elapsed(), read);
    patience_with_memory.record(began.elapsed(), read);
    Ok(read)
}

/// How long a client may send nothing before its program is paused. Clients earn it by sending data, so that a trickle does
/// not occupy a slot.
struct Patience {
    rest: Duration,
    most: Duration,
}

impl Patience {
    fn new(most: Duration) -> Self {
        Self { rest: most, most }
    }

    fn rest(&self) -> Duration {
        self.rest
    }

    /// Records that `bytes` arrived after waiting for `waited`.
    fn record(&mut self, waited: Duration, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let earned = Duration::from_secs(1) * bytes / BYTES_PER_SECOND;
        self.rest = (self.rest.saturating_sub(waited) + earned).min(self.most);
    }
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

/// How output is forwarded.
#[derive(Default)]
struct Forwarding {
    /// Whether the output is read to its end even without a receiver.
    durable: bool,
    /// Explanation to insert.
    explanation: Option<PushExplanation>,
}

/// Copies the output of a program to the stream, after its early output.
async fn forward(
    early: Bytes,
    stdout: Option<ChildStdout>,
    sender: &mpsc::Sender<io::Result<Bytes>>,
    mut forwarding: Forwarding,
) -> Result<()> {
    let mut next = (!early.is_empty()).then_some(early);
    let mut stdout = stdout;
    let mut listened_to = true;
    loop {
        let chunk = match (next.take(), &mut stdout) {
            (Some(early), _) => Some(early),
            (None, None) => None,
            (None, Some(stdout)) => {
                let mut chunk = BytesMut::with_capacity(CHUNK);
                let read = stdout.read_buf(&mut chunk).await?;
                (read > 0).then(|| chunk.freeze())
            }
        };
        let ended = chunk.is_none();
        let chunk = match (&mut forwarding.explanation, chunk) {
            (Some(explanation), Some(chunk)) => explanation.after(&chunk),
            (Some(explanation), None) => explanation.rest(),
            (None, chunk) => chunk.unwrap_or_default(),
        };
        if listened_to
            && !chunk.is_empty()
            && let Err(error) = send(sender, chunk).await
        {
            if !forwarding.durable {
                return Err(error);
            }
            listened_to = false;
        }
        if ended {
            return Ok(());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trickling_client_has_no_patience_left() {
        let mut patience = Patience::new(MAX_SILENCE);
        for _ in 0..2 {
            patience.record(Duration::from_millis(900), 1);
        }
        assert!(
            patience.rest() < Duration::from_millis(1),
            "{:?}",
            patience.rest()
        );
        // A steady client of 128 KiB per second is not paused.
        for _ in 0..100 {
            patience.record(Duration::from_millis(500), CHUNK);
        }
        assert_eq!(patience.rest(), MAX_SILENCE);
        patience.record(Duration::from_secs(100), 0);
        assert_eq!(patience.rest(), Duration::ZERO);
    }
}
