//! Forms that carry a file: its bytes go to a temporary file as they arrive, all else is read as usual.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::StreamExt;
use poem::http::HeaderMap;
use poem::http::header::CONTENT_TYPE;
use poem::web::{Field, Multipart};
use poem::{Body, FromRequest, RequestBody};
use serde_json::{Map, Value};
use tokio::io::AsyncReadExt;

use crate::api::exchange::Exchange;
use crate::api::parameters::{MAX_PARTS, insert};
use crate::api::spool;
use crate::error::{Error, Result};
use crate::services::uploads::UploadedFile;

/// How much all parts but the file may hold together, and a body that is no form, in bytes.
pub const MOST_TEXT: u64 = 1 << 20;

/// Whether a body is a form.
#[must_use]
pub fn is_form(headers: &HeaderMap) -> bool {
    essence(headers) == "multipart/form-data"
}

/// The type of a body without its parameters, in lower case.
pub(super) fn essence(headers: &HeaderMap) -> String {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = content_type.unwrap_or_default().split(';').next();
    essence.unwrap_or_default().trim().to_ascii_lowercase()
}

/// Reads a form: the file goes to what `spool` opens and is kept on the exchange, the rest are attributes.
///
/// # Errors
/// [`Error::TooLarge`] beyond `limit` bytes, [`Error::InvalidParameters`] for what is no form, breaks off,
/// or has something else than a file in the file's place.
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
    let wanted = exchange.operation().file.as_ref().map_or("", |file| file.name);
    let mut form = Multipart::from_request(exchange.request(), body)
        .await
        .map_err(|_| Error::parameter("the body is not a valid multipart form"))?;
    let mut attributes = Map::new();
    let mut text_left = MOST_TEXT;
    let mut count = 0;
    while let Some(part) = form.next_field().await.map_err(|_| cut())? {
        count += 1;
        if count > MAX_PARTS {
            return Err(Error::parameter(format!(
                "the body has too many parts (maximum is {MAX_PARTS})"
            )));
        }
        let Some(name) = part.name().map(str::to_owned) else {
            continue;
        };
        let optional = exchange
            .operation()
            .file
            .as_ref()
            .is_some_and(|file| !file.required);
        if name == wanted && (part.file_name().is_some() || !optional) {
            let file = receive(part, &name, spool()?).await?;
            exchange.set_file(file);
            continue;
        }
        let mut bytes = Vec::new();
        let mut reader = Box::pin(part.into_async_read()).take(text_left + 1);
        reader.read_to_end(&mut bytes).await.map_err(|_| cut())?;
        text_left = text_left.checked_sub(bytes.len() as u64).ok_or(Error::TooLarge)?;
        let text = String::from_utf8(bytes).map_err(|_| Error::parameter(format!("{name} is invalid")))?;
        insert(&mut attributes, &name, text)?;
    }
    Ok(attributes)
}

fn cut() -> Error {
    Error::parameter("the multipart body is incomplete")
}

/// Writes the bytes of a part to a file.
async fn receive(part: Field, name: &str, file: std::fs::File) -> Result<UploadedFile> {
    let file_name = part
        .file_name()
        .map(str::to_owned)
        .ok_or_else(|| Error::parameter(format!("{name} is invalid")))?;
    let reader = Box::pin(part.into_async_read());
    let (file, size) = spool::receive(reader, file, |_| cut()).await?;
    Ok(UploadedFile {
        file_name,
        size,
        file,
    })
}

/// The body, breaking off after so many bytes; the mark tells whether it did.
fn bounded(mut body: RequestBody, limit: u64) -> (RequestBody, Arc<AtomicBool>) {
    let exceeded = Arc::new(AtomicBool::new(false));
    let mark = Arc::clone(&exceeded);
    let Ok(body) = body.take() else {
        return (RequestBody::new(Body::empty()), exceeded);
    };
    let mut left = limit;
    let pieces = body.into_bytes_stream().map(move |piece| {
        let piece = piece?;
        match left.checked_sub(piece.len() as u64) {
            Some(rest) => {
                left = rest;
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
