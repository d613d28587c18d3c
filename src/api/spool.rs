//! Bytes that go to a temporary file as they arrive, so that they never stand in memory together.

use std::io;

use tokio::fs::File;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncSeekExt, AsyncWriteExt};

use crate::api::exchange::{self, Exchange};
use crate::api::form::essence;
use crate::error::{Error, Result};
use crate::services::uploads::UploadedFile;

/// How much is read at a time, in bytes.
const PIECE: usize = 64 << 10;

/// Writes what comes to a file, which is at its start again then; answers it with its length.
///
/// # Errors
/// What `broken` makes of a source that breaks off; [`Error::Internal`] when the file cannot be written.
pub async fn receive(
    mut reader: impl AsyncRead + Unpin,
    file: std::fs::File,
    broken: impl Fn(io::Error) -> Error,
) -> Result<(File, u64)> {
    let mut file = File::from_std(file);
    let mut buffer = vec![0; PIECE];
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

/// Sends a body that says it is JSON to a file, which is kept on the exchange.
///
/// # Errors
/// [`Error::InvalidParameters`] for a body of another type and one that breaks off, [`Error::TooLarge`] for one that is larger
/// than the operation takes, [`Error::TimedOut`] for one that comes too slowly.
pub async fn json(exchange: &mut Exchange<'_>, file: std::fs::File) -> Result<()> {
    let essence = essence(exchange.headers());
    let is_json = matches!(essence.as_str(), "" | "application/json") || essence.ends_with("+json");
    if !is_json {
        return Err(Error::parameter("the Content-Type must be application/json"));
    }
    let limit = exchange.operation().body_limit;
    let Ok(body) = exchange.take_body()?.take() else {
        return Err(Error::parameter("the body is missing"));
    };
    let reader = body.into_async_read().take(limit.saturating_add(1));
    let (file, size) = receive(reader, file, |error| exchange::broken(&error)).await?;
    if size > limit {
        return Err(Error::TooLarge);
    }
    exchange.set_file(UploadedFile {
        file_name: String::new(),
        size,
        file,
    });
    Ok(())
}
