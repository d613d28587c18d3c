//! Stores the body of a request while it arrives, or the output of a program, so that no program waits for a slow client.
//!
//! Short bodies stay in memory. Longer bodies are written to an unnamed file next to the repositories. The system
//! removes the file when the file is closed, also after a crash.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::ChildStdin;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::slots::RequestSpace;
use super::{Error, Repository, Result};

/// How long a client may pause while it sends a request.
pub(super) const IDLE: Duration = Duration::from_secs(120);
/// Bodies up to this size in bytes stay in memory.
pub(super) const MAX_IN_MEMORY: usize = 64 << 10;
/// Size of the first buffer in bytes; most requests of fetches are shorter.
const FIRST_BUFFER: usize = 1 << 10;
/// Number of bytes that are written to the file, and read from it, at once.
pub(super) const CHUNK: usize = 256 << 10;

/// Maximum number of bytes of a push that are read and dropped. An endless body is not worth the message of Git.
pub(super) const MAX_DROPPED: u64 = 1 << 30;

/// The body of a request, decompressed if necessary, or the output of a program.
pub(super) type Body = Pin<Box<dyn AsyncRead + Send>>;

/// Handling of the bytes of a body beyond its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Excess {
    /// The request fails.
    Fails,
    /// Up to this number of bytes is read and dropped, because Git itself rejects such a body with a message.
    Dropped(u64),
}

/// Limit on the stored part of a body.
#[derive(Debug, Clone, Copy)]
pub(super) struct SpoolLimit {
    /// Maximum number of bytes.
    pub(super) bytes: u64,
    /// Handling of further bytes.
    pub(super) excess: Excess,
    /// Maximum time without a byte.
    pub(super) pause: Duration,
}

/// Stored part of a body.
#[derive(Debug, Clone, Default)]
struct Stored {
    /// The whole body, if there is no file.
    memory: Bytes,
    file: Option<Arc<File>>,
    /// Number of bytes that can be read.
    length: u64,
    /// Whether no more bytes follow.
    complete: bool,
}

/// A body that is being received.
pub(super) struct Spool {
    stored: watch::Receiver<Stored>,
    /// Whether no more bytes are stored.
    is_full: Arc<AtomicBool>,
    task: AbortOnDropHandle<Result<RequestSpace>>,
}

impl Spool {
    /// Starts to receive `body`, and reserves its size in `space`. If the returned value is dropped, the body is no
    /// longer read.
    pub(super) fn receive(
        repository: &Repository,
        body: Body,
        limit: SpoolLimit,
        space: RequestSpace,
    ) -> Self {
        let (sender, stored) = watch::channel(Stored::default());
        let (repository, is_full) = (repository.clone(), Arc::new(AtomicBool::new(false)));
        let receiving = {
            let is_full = Arc::clone(&is_full);
            async move { receive(&repository, body, limit, space, &is_full, &sender).await }
        };
        Self {
            stored,
            is_full,
            task: AbortOnDropHandle::new(tokio::spawn(receiving)),
        }
    }

    /// Waits until this number of bytes or a shorter body was stored. Returns whether more bytes may follow.
    pub(super) async fn has_begun(&self, bytes: u64) -> bool {
        let mut stored = self.stored.clone();
        let reached = stored.wait_for(|stored| stored.complete || stored.length >= bytes);
        reached.await.is_ok_and(|stored| !stored.complete)
    }

    /// Stores no more bytes. The rest is handled as the bytes beyond the limit.
    pub(super) fn stop_storing(&self) {
        self.is_full.store(true, Ordering::Relaxed);
    }

    /// Waits until the body was stored completely. Returns the space of the body, which the caller must not release
    /// while the body is read.
    ///
    /// # Errors
    /// [`Error::LimitExceeded`], [`Error::Busy`] if other bodies already use too much space, [`Error::Timeout`] and
    /// [`Error::Protocol`] for a body that is incomplete, and I/O errors.
    pub(super) async fn complete(&mut self) -> Result<RequestSpace> {
        (&mut self.task).await.map_err(|_| Error::Worker)?
    }

    /// Returns a reader of the body from its start, which waits for bytes that were not received yet.
    pub(super) fn reader(&self) -> SpoolReader {
        SpoolReader {
            stored: self.stored.clone(),
            offset: 0,
            buffer: Vec::new(),
        }
    }
}

/// Stores a body, and reports its stored part to `sender`.
async fn receive(
    repository: &Repository,
    mut body: Body,
    mut limit: SpoolLimit,
    mut space: RequestSpace,
    is_full: &AtomicBool,
    sender: &watch::Sender<Stored>,
) -> Result<RequestSpace> {
    let mut stored = Stored::default();
    let mut chunk = BytesMut::new();
    let mut dropped = 0;
    while !stored.complete {
        while chunk.len() < CHUNK && !stored.complete {
            // A compressed body can contain a thousand times its size, so other tasks must run in between.
            tokio::task::consume_budget().await;
            chunk.reserve(FIRST_BUFFER);
            let before = stored.length + chunk.len() as u64;
            stored.complete = read(&mut body, &mut chunk, limit.pause).await? == 0;
            if is_full.load(Ordering::Relaxed) {
                limit.bytes = limit.bytes.min(before);
            }
            let room = limit.bytes.saturating_sub(stored.length);
            if chunk.len() as u64 > room {
                dropped += chunk.len() as u64 - room;
                let max_dropped = match limit.excess {
                    Excess::Fails => 0,
                    Excess::Dropped(bytes) => bytes,
                };
                if dropped > max_dropped {
                    return Err(Error::LimitExceeded("the request is larger than it may be"));
                }
                chunk.truncate(usize::try_from(room).unwrap_or(usize::MAX));
            }
            space.reserve(stored.length + chunk.len() as u64)?;
        }
        if stored.complete && stored.file.is_none() && chunk.len() <= MAX_IN_MEMORY {
            stored.length = chunk.len() as u64;
            stored.memory = chunk.split().freeze();
        } else {
            chunk = append(repository, &mut stored, chunk).await?;
        }
        sender.send_replace(stored.clone());
    }
    Ok(space)
}

/// Reads the next bytes of a body; 0 at its end.
///
/// # Errors
/// [`Error::Timeout`] for a client that sends nothing, and [`Error::Protocol`] for a body that broke off.
async fn read(body: &mut Body, buffer: &mut BytesMut, pause: Duration) -> Result<usize> {
    let read = tokio::time::timeout(pause, body.read_buf(buffer)).await;
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

/// Writes a chunk to the end of the file, and returns its empty buffer.
async fn append(repository: &Repository, stored: &mut Stored, mut chunk: BytesMut) -> Result<BytesMut> {
    let root = repository.shared().root().to_owned();
    let (file, offset, length) = (stored.file.take(), stored.length, chunk.len() as u64);
    let written = tokio::task::spawn_blocking(move || {
        let file = match file {
            Some(file) => file,
            // Not in the system's directory for temporary files, which may be in memory.
            None => Arc::new(tempfile::tempfile_in(root)?),
        };
        file.write_all_at(&chunk, offset)?;
        chunk.clear();
        Ok::<_, io::Error>((file, chunk))
    });
    let (file, chunk) = written.await.map_err(|_| Error::Worker)??;
    stored.file = Some(file);
    stored.length += length;
    Ok(chunk)
}

/// Reader of a body from its start.
pub(super) struct SpoolReader {
    stored: watch::Receiver<Stored>,
    offset: u64,
    /// Reused for all chunks, because the system would have to map the memory of each new buffer.
    buffer: Vec<u8>,
}

impl SpoolReader {
    /// Returns the next bytes, or none at the end of the body.
    ///
    /// # Errors
    /// I/O errors, and `UnexpectedEof` if the rest of the body cannot be received.
    pub(super) async fn next(&mut self) -> io::Result<&[u8]> {
        let offset = self.offset;
        let reached = self
            .stored
            .wait_for(|stored| stored.complete || stored.length > offset);
        let (file, memory, length) = {
            let stored = reached.await.map_err(|_| io::ErrorKind::UnexpectedEof)?;
            let length = (stored.length - offset).min(CHUNK as u64);
            (stored.file.clone(), stored.memory.clone(), length)
        };
        self.offset += length;
        let length = usize::try_from(length).unwrap_or(CHUNK);
        let mut buffer = std::mem::take(&mut self.buffer);
        self.buffer = match file {
            None if length == 0 => Vec::new(),
            None => memory.into(),
            Some(file) => {
                let read = tokio::task::spawn_blocking(move || {
                    buffer.resize(length, 0);
                    file.read_exact_at(&mut buffer, offset)?;
                    Ok::<_, io::Error>(buffer)
                });
                read.await.map_err(io::Error::other)??
            }
        };
        Ok(&self.buffer)
    }

    /// Writes the body to the standard input of a program, and closes it. Returns false if the program stopped reading before
    /// the end of the body, which is not an error.
    pub(super) async fn feed(mut self, stdin: Option<ChildStdin>) -> bool {
        let Some(mut stdin) = stdin else { return true };
        loop {
            match self.next().await {
                Ok([]) => return true,
                Ok(chunk) => {
                    if stdin.write_all(chunk).await.is_err() {
                        return false;
                    }
                }
                // The program fails, because its input ends too soon.
                Err(error) => {
                    tracing::debug!(%error, "failed to read a received body");
                    return true;
                }
            }
        }
    }
}
