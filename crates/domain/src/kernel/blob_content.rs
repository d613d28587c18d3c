//! Streams the bytes of a blob for a download from any offset, without a size limit.

use std::io;

use bytes::{Bytes, BytesMut};
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use git::BlobStream;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio_util::io::ReaderStream;

use crate::kernel::download::DownloadContent;
use crate::kernel::error::{Error, Result};

/// Bytes that are inspected to detect text, as in Git.
const SNIFFED: usize = 8_000;

/// Bytes that are read at a time.
const PIECE: usize = 64 << 10;

/// Returns the content of a blob, large ones as a stream, and whether it is text: text has no NUL near its
/// start.
///
/// # Errors
/// Returns an error if the start of the blob cannot be read.
pub async fn content(mut blob: BlobStream) -> Result<(DownloadContent, bool)> {
    let size = blob.size();
    let small = usize::try_from(size).ok().filter(|size| *size <= PIECE);
    let mut head = BytesMut::new();
    while head.len() < small.unwrap_or(SNIFFED) {
        if blob.read_buf(&mut head).await.map_err(Error::internal)? == 0 {
            break;
        }
    }
    let is_text = !head[..head.len().min(SNIFFED)].contains(&0);
    if small == Some(head.len()) {
        return Ok((DownloadContent::Bytes(head.freeze()), is_text));
    }
    let reader = io::Cursor::new(head.freeze()).chain(blob);
    let open = Box::new(move |start, end| cut(reader, start, end));
    Ok((DownloadContent::Seekable { size, open }, is_text))
}

/// Streams the bytes from `start` (inclusive) to `end` (exclusive).
fn cut<R>(mut reader: R, start: u64, end: u64) -> BoxStream<'static, io::Result<Bytes>>
where
    R: AsyncRead + Send + Unpin + 'static,
{
    let opened = async move {
        let mut before = (&mut reader).take(start);
        if tokio::io::copy(&mut before, &mut tokio::io::sink()).await? < start {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        let range_reader = reader.take(end.saturating_sub(start));
        Ok(ReaderStream::with_capacity(range_reader, PIECE))
    };
    stream::once(opened).try_flatten().boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn digits(start: u64, end: u64) -> io::Result<Vec<u8>> {
        let pieces: Vec<Bytes> = cut(&b"0123456789"[..], start, end).try_collect().await?;
        Ok(pieces.concat())
    }

    #[tokio::test]
    async fn blob_content_returns_any_byte_range() {
        assert_eq!(digits(0, 10).await.expect("bytes"), b"0123456789");
        assert_eq!(digits(3, 5).await.expect("bytes"), b"34");
        assert_eq!(digits(9, 10).await.expect("bytes"), b"9");
        assert_eq!(digits(4, 4).await.expect("bytes"), b"");
    }

    #[tokio::test]
    async fn blob_content_shorter_than_range_fails() {
        let error = digits(11, 12).await.expect_err("an error");
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
