//! Receives the whole request of a fetch before a program is started for it, so that a slow client occupies no slot.

use std::io::Cursor;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::BytesMut;
use tokio::fs::File;
use tokio::io::{AsyncRead, AsyncSeekExt, AsyncWriteExt, ReadBuf};

use super::Body;
use crate::slots::RequestSpace;
use crate::stream::read_request;
use crate::{Error, Repository, Result};

/// Requests up to this size in bytes stay in memory, larger ones are written to an unnamed file.
const MAX_IN_MEMORY: usize = 64 * 1024;
/// Size of the first buffer in bytes; most requests are shorter.
const FIRST_BUFFER: usize = 1024;

/// A received request, with the space that it takes.
struct Received<R> {
    source: R,
    _space: RequestSpace,
}

impl<R: AsyncRead + Unpin> AsyncRead for Received<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.source).poll_read(context, buffer)
    }
}

/// Receives a body of at most `limit` bytes.
///
/// # Errors
/// [`Error::LimitExceeded`], [`Error::Busy`] if requests take too much space already, [`Error::Timeout`] and
/// [`Error::Protocol`] for a body that is incomplete, and I/O errors.
pub(super) async fn receive<R>(repository: &Repository, body: R, limit: u64) -> Result<Body>
where
    R: AsyncRead + Send,
{
    let mut body = std::pin::pin!(body);
    let mut space = repository.request_space();
    let mut chunk = BytesMut::new();
    while chunk.len() < MAX_IN_MEMORY {
        chunk.reserve(FIRST_BUFFER);
        if read_request(&mut body, &mut chunk).await? == 0 {
            return Ok(Box::pin(Received {
                source: Cursor::new(chunk.freeze()),
                _space: space,
            }));
        }
        space.reserve(chunk.len() as u64)?;
    }
    let mut file = temporary_file(repository).await?;
    let mut received = chunk.len() as u64;
    while !chunk.is_empty() {
        file.write_all(&chunk).await?;
        chunk.clear();
        received += read_request(&mut body, &mut chunk).await? as u64;
        if received > limit {
            return Err(Error::LimitExceeded("the request is larger than it may be"));
        }
        space.reserve(received)?;
    }
    file.flush().await?;
    file.rewind().await?;
    Ok(Box::pin(Received {
        source: file,
        _space: space,
    }))
}

/// Creates an unnamed file next to the repositories: the directory for temporary files of the system may be in memory.
async fn temporary_file(repository: &Repository) -> Result<File> {
    let root = repository.shared().root().to_owned();
    let created = tokio::task::spawn_blocking(move || tempfile::tempfile_in(root)).await;
    Ok(File::from_std(created.map_err(|_| Error::Worker)??))
}
