//! Input and output of programs as streams with backpressure.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::ChildStdout;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::process::{Program, RunningProgram};
use super::push_explanation::PushExplanation;
use super::{Error, Repository, Result};

/// How long a client may pause while it sends a request or receives a response.
const IDLE: Duration = Duration::from_secs(120);
/// Size of one read, in bytes.
const CHUNK: usize = 64 * 1024;
/// Number of chunks buffered for a slow reader.
const CHUNKS_AHEAD: usize = 4;
/// Time without output after which a push sends an empty packet, as Git does: proxies end a response without data.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// Packet without content.
const EMPTY_PACKET: &[u8] = b"0005\x01";

/// Stream of bytes. If it is dropped before its end, the program is killed.
pub struct ByteStream {
    chunks: mpsc::Receiver<io::Result<Bytes>>,
}

impl Stream for ByteStream {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.chunks.poll_recv(context)
    }
}

impl ByteStream {
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

/// Exchange of data between a program and a client whose request was received.
pub(super) struct TransferExchange {
    /// Task that writes the request to the program. It ends with the exchange.
    pub(super) input: AbortOnDropHandle<()>,
    /// Whether the program finishes even if the client disconnects.
    pub(super) durable: bool,
    /// Whether the output consists of packets with sidebands, into which messages can be inserted.
    pub(super) sideband: bool,
}

impl Repository {
    /// Starts a program that exchanges data with a client.
    ///
    /// # Errors
    /// [`Error::Busy`] if no slot becomes available, and the errors of [`Self::start`].
    pub(super) async fn start_transfer(&self, program: Program) -> Result<RunningProgram> {
        let slots = &self.shared().slots.transfers;
        let permit = self.slot(slots, "too many transfers are in progress").await?;
        self.start_in_slot(program, permit).await
    }

    /// Starts the program of a push if a slot and its memory are available now.
    ///
    /// # Errors
    /// Failures to start the program.
    pub(super) fn try_start_push(&self, program: Program) -> Result<Option<RunningProgram>> {
        let Some(slot) = self.shared().slots.transfers.try_acquire_many(self.holder(), 1) else {
            return Ok(None);
        };
        let Some(memory) = self.try_reserve_push_memory() else {
            return Ok(None);
        };
        self.start_with(program, slot, memory).map(Some)
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
    ByteStream { chunks: receiver }
}

/// Returns the output of a program that reads a request; `done` runs when it ends.
///
/// Only `done` gets the result of the program, because the program has already written everything the client
/// needs.
pub(super) fn exchange<F>(running: RunningProgram, exchange: TransferExchange, done: F) -> ByteStream
where
    F: FnOnce(Result<()>) + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(CHUNKS_AHEAD);
    tokio::spawn(async move {
        let result = run_exchange(running, exchange, &sender).await;
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
    ByteStream { chunks: receiver }
}

async fn run_exchange(
    mut running: RunningProgram,
    exchange: TransferExchange,
    sender: &mpsc::Sender<io::Result<Bytes>>,
) -> Result<()> {
    let TransferExchange {
        input: _input,
        durable,
        sideband,
    } = exchange;
    let stdout = running.take_stdout();
    let forwarding = Forwarding {
        durable,
        explanation: running
            .max_allocation()
            .filter(|_| sideband)
            .map(PushExplanation::new),
    };
    let work = async {
        let forwarded = forward(Bytes::new(), stdout, sender, forwarding);
        if durable {
            return forwarded.await;
        }
        tokio::select! {
            done = forwarded => done,
            () = sender.closed() => Err(disconnected()),
        }
    };
    running.within(work).await?;
    running.finish().await.map(drop)
}

/// How output is forwarded.
#[derive(Default)]
struct Forwarding {
    /// Whether the output is read to its end even without a receiver.
    durable: bool,
    /// Explanation to insert, if the output consists of packets with sidebands.
    explanation: Option<PushExplanation>,
}

/// Copies `first` and the output of a program to the stream.
async fn forward(
    first: Bytes,
    stdout: Option<ChildStdout>,
    sender: &mpsc::Sender<io::Result<Bytes>>,
    mut forwarding: Forwarding,
) -> Result<()> {
    let mut next = (!first.is_empty()).then_some(first);
    let mut stdout = stdout;
    let mut listened_to = true;
    loop {
        let chunk = match (next.take(), &mut stdout) {
            (Some(first), _) => Some(first),
            (None, None) => None,
            (None, Some(stdout)) => {
                let mut chunk = BytesMut::with_capacity(CHUNK);
                match tokio::time::timeout(KEEP_ALIVE, stdout.read_buf(&mut chunk)).await {
                    Ok(read) => (read? > 0).then(|| chunk.freeze()),
                    Err(_) => {
                        let between_packets = forwarding
                            .explanation
                            .as_ref()
                            .is_some_and(PushExplanation::is_between_packets);
                        next = (between_packets && listened_to).then_some(Bytes::from_static(EMPTY_PACKET));
                        continue;
                    }
                }
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
