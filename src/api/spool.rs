//! Writes a body to a temporary file while it arrives, so that it is never completely in memory.

use std::io;

use domain::accounts::uploads::UploadedFile;
use domain::kernel::error::{Error, Result};
use poem::Body;
use tokio::fs::File;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncSeekExt, AsyncWriteExt};

use crate::api::exchange::{self, Exchange};
use crate::api::media_type::essence;

/// Size of one read, in bytes.
const CHUNK_BYTES: usize = 64 << 10;

/// Writes a stream to a file and returns the file, rewound, with its length.
///
/// # Errors
/// The result of `broken` if the source fails; [`Error::Internal`] if the file cannot be written.
pub async fn receive(
    mut reader: impl AsyncRead + Unpin,
    file: std::fs::File,
    broken: impl Fn(io::Error) -> Error,
) -> Result<(File, u64)> {
    let mut file = File::from_std(file);
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut size = 0;
    loop {
        let read = reader.read(&mut buffer).await.map_err(&broken)?;
        if read == 0 {
            break;
        }
        size += read as u64;
        file.write_all(&buffer[..read]).await.map_err(Error::internal)?;
    }
    file.flush().await.map_err(Error::internal)?;
    file.rewind().await.map_err(Error::internal)?;
    Ok((file, size))
}

/// Writes the buffered start of a body and its rest to a file. Returns the file, rewound, with its length.
///
/// # Errors
/// [`Error::TooLarge`] beyond `limit` bytes, and the errors of [`receive`].
pub async fn rest(exchange: &mut Exchange<'_>, file: std::fs::File, limit: u64) -> Result<(File, u64)> {
    if exchange.content_length().is_some_and(|length| length > limit) {
        return Err(Error::TooLarge);
    }
    let start = io::Cursor::new(exchange.take_buffered());
    let rest = exchange.take_rest().unwrap_or_else(Body::empty);
    let reader = start.chain(rest.into_async_read()).take(limit.saturating_add(1));
    let (file, size) = receive(reader, file, |error| exchange::broken(&error)).await?;
    if size > limit {
        return Err(Error::TooLarge);
    }
    Ok((file, size))
}

/// Writes a body of any type to a file, which is stored in the exchange.
///
/// # Errors
/// As [`rest`].
pub async fn bytes(exchange: &mut Exchange<'_>, file: std::fs::File, limit: u64) -> Result<()> {
    let (file, size) = rest(exchange, file, limit).await?;
    exchange.set_file(UploadedFile {
        file_name: String::new(),
        size,
        file,
    });
    Ok(())
}

/// Writes a JSON body to a file, which is stored in the exchange.
///
/// # Errors
/// [`Error::InvalidParameters`] for another content type or a body that breaks off, [`Error::TooLarge`]
/// beyond `limit` bytes, [`Error::TimedOut`] if the body arrives too slowly.
pub async fn json(exchange: &mut Exchange<'_>, file: std::fs::File, limit: u64) -> Result<()> {
    let essence = essence(exchange.headers());
    let is_json = matches!(essence.as_str(), "" | "application/json") || essence.ends_with("+json");
    if !is_json {
        return Err(Error::parameter("the Content-Type must be application/json"));
    }
    bytes(exchange, file, limit).await
}
