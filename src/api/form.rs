//! Multipart forms with a file: the file is written to a temporary file while it arrives, and the other parts
//! are attributes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use domain::accounts::uploads::UploadedFile;
use domain::kernel::error::{Error, Result};
use futures_util::StreamExt;
use parsers::multipart::{FileParameter, FormParts, PartKind};
use poem::http::HeaderMap;
use poem::web::{Field, Multipart};
use poem::{Body, FromRequest, RequestBody};
use serde_json::{Map, Value};
use tokio::io::AsyncReadExt;

use crate::api::exchange::Exchange;
use crate::api::media_type::essence;
use crate::api::parameters::form_error;
use crate::api::spool;

/// Maximum size in bytes of all parts except the file, and of a body that is not a form.
pub const MAX_TEXT_BYTES: u64 = 1 << 20;

/// Returns whether a body is a multipart form.
#[must_use]
pub fn is_form(headers: &HeaderMap) -> bool {
    essence(headers) == "multipart/form-data"
}

/// Reads a form. The file is written to the file that `spool` opens and stored in the exchange; the other
/// parts become attributes.
///
/// # Errors
/// [`Error::TooLarge`] beyond `limit` bytes, [`Error::InvalidParameters`] if the body is not a form, breaks
/// off, or has a text in place of the file.
pub async fn read(
    exchange: &mut Exchange<'_>,
    limit: u64,
    spool: impl Fn() -> Result<std::fs::File>,
) -> Result<Map<String, Value>> {
    let (mut body, exceeded) = bounded(exchange.take_body()?, limit);
    let outcome = parts(exchange, &mut body, spool).await;
    if exceeded.load(Ordering::Relaxed) {
        return Err(Error::TooLarge);
    }
    outcome
}

async fn parts(
    exchange: &mut Exchange<'_>,
    body: &mut RequestBody,
    spool: impl Fn() -> Result<std::fs::File>,
) -> Result<Map<String, Value>> {
    let file = exchange.operation().file.as_ref().map(|file| FileParameter {
        name: file.name,
        required: file.required,
    });
    let mut form = Multipart::from_request(exchange.request(), body)
        .await
        .map_err(|_| Error::parameter("the body is not a valid multipart form"))?;
    let mut parts = FormParts::new(file, MAX_TEXT_BYTES);
    while let Some(part) = form.next_field().await.map_err(|_| incomplete())? {
        let kind = parts
            .begin(part.name(), part.file_name().is_some())
            .map_err(form_error)?;
        let Some(name) = part.name().map(str::to_owned) else {
            continue;
        };
        if kind == PartKind::File {
            let file = receive(part, &name, spool()?).await?;
            exchange.set_file(file);
            continue;
        }
        let mut bytes = Vec::new();
        let mut reader = Box::pin(part.into_async_read()).take(parts.bytes_left() + 1);
        reader.read_to_end(&mut bytes).await.map_err(|_| incomplete())?;
        parts.add(&name, bytes).map_err(form_error)?;
    }
    Ok(parts.finish())
}

fn incomplete() -> Error {
    Error::parameter("the multipart body is incomplete")
}

/// Writes the bytes of a part to a file.
async fn receive(part: Field, name: &str, file: std::fs::File) -> Result<UploadedFile> {
    let file_name = part
        .file_name()
        .map(str::to_owned)
        .ok_or_else(|| Error::parameter(format!("{name} is invalid")))?;
    let reader = Box::pin(part.into_async_read());
    let (file, size) = spool::receive(reader, file, |_| incomplete()).await?;
    Ok(UploadedFile {
        file_name,
        size,
        file,
    })
}

/// Returns the body, cut off after `limit` bytes, and a mark that shows whether it was cut off.
fn bounded(mut body: RequestBody, limit: u64) -> (RequestBody, Arc<AtomicBool>) {
    let exceeded = Arc::new(AtomicBool::new(false));
    let mark = Arc::clone(&exceeded);
    let Ok(body) = body.take() else {
        return (RequestBody::new(Body::empty()), exceeded);
    };
    let mut remaining = limit;
    let pieces = body.into_bytes_stream().map(move |piece| {
        let piece = piece?;
        match remaining.checked_sub(piece.len() as u64) {
            Some(rest) => {
                remaining = rest;
                Ok(piece)
            }
            None => {
                mark.store(true, Ordering::Relaxed);
                Err(std::io::Error::other("the body is too large"))
            }
        }
    });
    (RequestBody::new(Body::from_bytes_stream(pieces)), exceeded)
}
