//! The bytes of a blob for a download, whatever their number: sent as they are read, from any offset on.

use std::io;

use bytes::{Bytes, BytesMut};
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio_util::io::ReaderStream;

use crate::api::types::Content;
use crate::error::{Error, Result};
use crate::git::BlobStream;

/// How many bytes decide whether a content is text, as in `git`.
const LOOKED_AT: u64 = 8_000;

/// A blob's bytes and what they are.
pub struct Raw {
    /// `text/plain` for text, else `application/octet-stream`.
    pub content_type: &'static str,
    /// The bytes.
    pub content: Content,
}

/// Prepares the content of a blob for sending.
///
/// # Errors
/// When its beginning cannot be read.
pub async fn raw(mut blob: BlobStream) -> Result<Raw> {
    let size = blob.size();
    let mut start = BytesMut::new();
    while (start.len() as u64) < LOOKED_AT {
        if blob.read_buf(&mut start).await.map_err(Error::internal)? == 0 {
            break;
        }
    }
    let content_type = content_type(&start);
    let open = move |from, to| cut(std::io::Cursor::new(start.freeze()).chain(blob), from, to);
    Ok(Raw {
        content_type,
        content: Content::Seekable {
            size,
            open: Box::new(open),
        },
    })
}

/// Text has no NUL near its start; only what is seen to be UTF-8 there is called so.
fn content_type(start: &[u8]) -> &'static str {
    if start.contains(&0) {
        return "application/octet-stream";
    }
    match std::str::from_utf8(start) {
        Err(error) if error.error_len().is_some() => "text/plain",
        _ => "text/plain; charset=utf-8",
    }
}

/// The bytes from `from` (inclusive) to `to` (exclusive).
fn cut(
    mut reader: impl AsyncRead + Send + Unpin + 'static,
    from: u64,
    to: u64,
) -> BoxStream<'static, io::Result<Bytes>> {
    let opened = async move {
        tokio::io::copy(&mut (&mut reader).take(from), &mut tokio::io::sink()).await?;
        Ok::<_, io::Error>(ReaderStream::new(reader.take(to.saturating_sub(from))))
    };
    stream::once(opened).try_flatten().boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn cut_of(from: u64, to: u64) -> Vec<u8> {
        let pieces: Vec<Bytes> = cut(&b"0123456789"[..], from, to)
            .try_collect()
            .await
            .expect("bytes");
        pieces.concat()
    }

    #[tokio::test]
    async fn any_stretch_can_be_cut_out() {
        assert_eq!(cut_of(0, 10).await, b"0123456789");
        assert_eq!(cut_of(3, 5).await, b"34");
        assert_eq!(cut_of(9, 10).await, b"9");
        assert_eq!(cut_of(4, 4).await, b"");
    }

    #[test]
    fn text_is_told_from_bytes() {
        assert_eq!(content_type(b"plain"), "text/plain; charset=utf-8");
        assert_eq!(content_type("\u{e9}".as_bytes()), "text/plain; charset=utf-8");
        assert_eq!(content_type(b"caf\xe9 au lait"), "text/plain");
        assert_eq!(content_type(b"caf\xc3"), "text/plain; charset=utf-8");
        assert_eq!(content_type(b"a\0b"), "application/octet-stream");
        assert_eq!(content_type(b""), "text/plain; charset=utf-8");
    }
}
