//! Input and output of programs as streams with backpressure.
//!
//! A program that waits for a slow client keeps its memory. So if another program needs memory, the rest of the output is
//! stored in a file, from which the client reads, and the program ends (ADR 44).

use std::future::Future;
use std::io::{self, Cursor};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use tokio::io::AsyncReadExt;
use tokio::process::ChildStdout;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::bzip2_stream;
use super::fair_semaphore::FairPermit;
use super::process::{Program, RunningProgram};
use super::push_explanation::PushExplanation;
use super::slots::RequestSpace;
use super::spool::{Excess, Spool, SpoolLimit, SpoolReader};
use super::{Error, Repository, Result};

/// How long a client may pause while it receives a response.
const IDLE: Duration = Duration::from_secs(120);
/// Size of one read, in bytes.
const CHUNK: usize = 64 * 1024;
/// Number of chunks buffered for a slow reader.
const CHUNKS_AHEAD: usize = 4;
/// How long a client may take for one chunk if another program needs memory, and the response cannot be stored.
const UNSTORED_TIMEOUT: Duration = Duration::from_secs(5);
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

impl ByteStream {
    /// Returns the stream compressed with bzip2.
    pub(super) fn compressed_with_bzip2(self) -> Self {
        let (sender, receiver) = mpsc::channel(CHUNKS_AHEAD);
        tokio::spawn(bzip2_stream::compress(self.chunks, sender, IDLE));
        Self { chunks: receiver }
    }
}

/// Sends the chunks of a stream that this server produces itself.
pub(super) struct ChunkSender(mpsc::Sender<io::Result<Bytes>>);

impl ChunkSender {
    /// Sends a chunk.
    ///
    /// # Errors
    /// An error if the client is gone or accepts nothing within the idle limit.
    pub(super) async fn send(&self, chunk: Bytes) -> Result<()> {
        send(&self.0, chunk).await
    }
}

/// Returns the stream of the chunks that `work` sends within `limit`. The stream ends in an error if `work` fails.
pub(super) fn produced<F, Fut>(limit: Duration, work: F) -> ByteStream
where
    F: FnOnce(ChunkSender) -> Fut,
    Fut: Future<Output = Result<()>> + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(CHUNKS_AHEAD);
    let work = work(ChunkSender(sender.clone()));
    tokio::spawn(async move {
        let done = tokio::time::timeout(limit, work);
        if let Err(error) = done.await.unwrap_or(Err(Error::Timeout)) {
            send_failure(&sender, io::Error::other(error)).await;
        }
    });
    ByteStream { chunks: receiver }
}

/// Execution of a push that was received.
pub(super) struct PushExchange {
    /// Task that writes the request to the program. It ends with the exchange.
    pub(super) input: AbortOnDropHandle<()>,
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

/// Returns `first` and the output of a program; ends in an error if the program fails or exceeds its time
/// limit.
pub(super) fn output(repository: &Repository, running: RunningProgram, first: Bytes) -> ByteStream {
    let (sender, receiver) = mpsc::channel(CHUNKS_AHEAD);
    let repository = repository.clone();
    tokio::spawn(async move {
        if let Err(error) = deliver(&repository, running, first, &sender).await {
            send_failure(&sender, io::Error::other(error)).await;
        }
    });
    ByteStream { chunks: receiver }
}

/// Returns the output of the program of a fetch; `done` runs when the response ends.
///
/// Only `done` gets the result of the program, because the program has already written everything the client
/// needs.
pub(super) fn fetch<F>(repository: &Repository, running: RunningProgram, done: F) -> ByteStream
where
    F: FnOnce(Result<()>) + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(CHUNKS_AHEAD);
    let repository = repository.clone();
    tokio::spawn(async move {
        let result = deliver(&repository, running, Bytes::new(), &sender).await;
        end(result, &sender, done).await;
    });
    ByteStream { chunks: receiver }
}

/// Returns the output of the program of a push; `done` runs when it ends, as in [`fetch`]. The program finishes even if the
/// client disconnects.
pub(super) fn push<F>(running: RunningProgram, exchange: PushExchange, done: F) -> ByteStream
where
    F: FnOnce(Result<()>) + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(CHUNKS_AHEAD);
    tokio::spawn(async move {
        let result = run_push(running, exchange, &sender).await;
        end(result, &sender, done).await;
    });
    ByteStream { chunks: receiver }
}

/// Ends a response with the errors that the program has not written itself.
async fn end(result: Result<()>, sender: &mpsc::Sender<io::Result<Bytes>>, done: impl FnOnce(Result<()>)) {
    let failure = match &result {
        Err(Error::Timeout) => Some(io::ErrorKind::TimedOut.into()),
        Err(Error::LimitExceeded(text)) => Some(io::Error::other(Error::LimitExceeded(text))),
        Err(Error::Busy(text)) => Some(io::Error::other(Error::Busy(text))),
        Err(Error::Io(error)) => Some(io::Error::new(error.kind(), error.to_string())),
        _ => None,
    };
    done(result);
    if let Some(failure) = failure {
        send_failure(sender, failure).await;
    }
}

/// Sends an error after the program has ended. Waits for a slow client, which would take the response for complete otherwise.
async fn send_failure(sender: &mpsc::Sender<io::Result<Bytes>>, failure: io::Error) {
    let _ = tokio::time::timeout(IDLE, sender.send(Err(failure))).await;
}

async fn run_push(
    mut running: RunningProgram,
    exchange: PushExchange,
    sender: &mpsc::Sender<io::Result<Bytes>>,
) -> Result<()> {
    let PushExchange {
        input: _input,
        sideband,
    } = exchange;
    let stdout = running.take_stdout();
    let explanation = running
        .max_allocation()
        .filter(|_| sideband)
        .map(PushExplanation::new);
    running.within(forward_push(stdout, sender, explanation)).await?;
    running.finish().await.map(drop)
}

/// Copies the output of the program of a push to the stream, to its end even without a receiver. Inserts the explanation, if
/// the output consists of packets with sidebands.
async fn forward_push(
    mut stdout: Option<ChildStdout>,
    sender: &mpsc::Sender<io::Result<Bytes>>,
    mut explanation: Option<PushExplanation>,
) -> Result<()> {
    let mut listened_to = true;
    loop {
        let mut chunk = BytesMut::with_capacity(CHUNK);
        let read = match &mut stdout {
            Some(stdout) => tokio::time::timeout(KEEP_ALIVE, stdout.read_buf(&mut chunk)).await,
            None => Ok(Ok(0)),
        };
        let ended = match read {
            Ok(length) => length? == 0,
            Err(_) => {
                let is_between = PushExplanation::is_between_packets;
                if !explanation.as_ref().is_some_and(is_between) {
                    continue;
                }
                chunk.extend_from_slice(EMPTY_PACKET);
                false
            }
        };
        let chunk = match &mut explanation {
            Some(explanation) if ended => explanation.rest(),
            Some(explanation) => explanation.after(&chunk),
            None => chunk.freeze(),
        };
        if listened_to && !chunk.is_empty() && send(sender, chunk).await.is_err() {
            listened_to = false;
        }
        if ended {
            return Ok(());
        }
    }
}

/// Sends `first` and the output of a program to a client. Kills the program if the client disconnects.
async fn deliver(
    repository: &Repository,
    mut running: RunningProgram,
    first: Bytes,
    sender: &mpsc::Sender<io::Result<Bytes>>,
) -> Result<()> {
    let (stdout, deadline) = (running.take_stdout(), running.deadline());
    let work = async move {
        if !first.is_empty() {
            send(sender, first).await?;
        }
        let slow = match stdout {
            Some(stdout) => forward(repository, stdout, sender).await?,
            None => None,
        };
        match slow {
            None => running.finish().await.map(drop),
            Some(rest) => store_and_send(repository, running, rest, deadline, sender).await,
        }
    };
    tokio::select! {
        done = tokio::time::timeout_at(deadline, work) => done.map_err(|_| Error::Timeout)?,
        () = sender.closed() => Err(disconnected()),
    }
}

/// The rest of a response that is stored.
struct SlowRest {
    /// The next bytes.
    chunk: Bytes,
    /// The bytes that the program writes after them.
    stdout: ChildStdout,
    slot: FairPermit,
    space: RequestSpace,
}

/// Copies the output of a program to the stream, until its end or until the rest has to be stored.
async fn forward(
    repository: &Repository,
    mut stdout: ChildStdout,
    sender: &mpsc::Sender<io::Result<Bytes>>,
) -> Result<Option<SlowRest>> {
    loop {
        let mut chunk = BytesMut::with_capacity(CHUNK);
        if stdout.read_buf(&mut chunk).await? == 0 {
            return Ok(None);
        }
        let chunk = chunk.freeze();
        tokio::select! {
            biased;
            sent = send(sender, chunk.clone()) => sent?,
            stored = must_store(repository) => {
                let (slot, space) = stored?;
                return Ok(Some(SlowRest { chunk, stdout, slot, space }));
            }
        }
    }
}

/// Waits until another program needs memory, and returns the space to store a response.
///
/// # Errors
/// [`Error::Busy`] if there is no space for a while.
async fn must_store(repository: &Repository) -> Result<(FairPermit, RequestSpace)> {
    let mut unstored_since = None;
    loop {
        repository.shared().memory.wanted().await;
        if let Some(space) = repository.try_response_space() {
            return Ok(space);
        }
        if unstored_since.get_or_insert_with(Instant::now).elapsed() > UNSTORED_TIMEOUT {
            return Err(Error::Busy("the client reads too slowly"));
        }
    }
}

/// Stores the rest of the output while the program writes it, and sends it. The program has ended when the rest is stored.
async fn store_and_send(
    repository: &Repository,
    running: RunningProgram,
    rest: SlowRest,
    deadline: Instant,
    sender: &mpsc::Sender<io::Result<Bytes>>,
) -> Result<()> {
    let limit = SpoolLimit {
        bytes: u64::MAX,
        excess: Excess::Fails,
        pause: deadline.duration_since(Instant::now()),
    };
    let body = Box::pin(Cursor::new(rest.chunk).chain(rest.stdout));
    let mut spool = Spool::receive(repository, body, limit, rest.space);
    let reader = spool.reader();
    let ending = async {
        let space = spool.complete().await?;
        running.finish().await.map(|_| space)
    };
    let (ended, sent) = tokio::join!(ending, send_stored(reader, sender));
    let _space = ended?;
    drop(rest.slot);
    sent
}

async fn send_stored(mut reader: SpoolReader, sender: &mpsc::Sender<io::Result<Bytes>>) -> Result<()> {
    loop {
        let stored = reader.next().await?;
        if stored.is_empty() {
            return Ok(());
        }
        for chunk in stored.chunks(CHUNK) {
            send(sender, Bytes::copy_from_slice(chunk)).await?;
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
