//! Reads and parses request bodies without files.
//!
//! A small body is kept in memory. A large JSON body is written to a temporary file while it arrives, and parsed from
//! the file. Large bodies are parsed on a blocking thread, so that neither slow clients nor large documents delay other
//! requests.

use domain::kernel::Backend;
use domain::kernel::error::{Error, Result};
use poem::http::header::CONTENT_TYPE;
use serde_json::{Map, Value};

use crate::api::exchange::Exchange;
use crate::api::parameters::{self, BodyFormat};
use crate::api::spool;

/// Maximum size of a small body, in bytes. Small bodies are read before the resource is looked up.
const MAX_SMALL_BYTES: u64 = 1 << 20;
/// Maximum size of a URL-encoded or multipart body without a file, in bytes. Such bodies are parsed in memory.
const MAX_FORM_BYTES: u64 = 32 << 20;
/// Memory for parsing a form, as a multiple of its size: the decoded pairs, and the values.
const FORM_MEMORY_FACTOR: u64 = 2;

/// Returns whether the body is large. A body that does not announce its length is read until it ends or is large.
///
/// # Errors
/// As [`Exchange::buffer_body`].
pub async fn is_large(exchange: &mut Exchange<'_>) -> Result<bool> {
    if exchange.operation().body_limit <= MAX_SMALL_BYTES || exchange.operation().file.is_some() {
        return Ok(false);
    }
    match exchange.content_length() {
        Some(length) => Ok(length > MAX_SMALL_BYTES),
        None => Ok(!exchange.buffer_body(MAX_SMALL_BYTES).await?),
    }
}

/// Reads a small body of at most `limit` bytes and returns its attributes.
///
/// # Errors
/// [`Error::TooLarge`] beyond the limit, the errors of [`Exchange::buffer_body`], and [`Error::InvalidParameters`] if
/// the body does not match its type.
pub async fn read_small(exchange: &mut Exchange<'_>, limit: u64) -> Result<Map<String, Value>> {
    buffer(exchange, limit).await?;
    let bytes = exchange.take_buffered();
    parameters::body(exchange.request(), bytes, exchange.memory()).await
}

/// Reads a large body and returns its attributes.
///
/// # Errors
/// As [`read_small`], with the limit of the operation.
pub async fn read_large(exchange: &mut Exchange<'_>, backend: &Backend) -> Result<Map<String, Value>> {
    let limit = exchange.operation().body_limit;
    match parameters::body_format(exchange.headers())? {
        BodyFormat::Json => read_large_json(exchange, backend, limit).await,
        BodyFormat::Form | BodyFormat::Multipart => {
            read_large_form(exchange, backend, limit.min(MAX_FORM_BYTES)).await
        }
    }
}

async fn buffer(exchange: &mut Exchange<'_>, limit: u64) -> Result<()> {
    let is_too_large = exchange.content_length().is_some_and(|length| length > limit);
    if is_too_large || !exchange.buffer_body(limit).await? {
        return Err(Error::TooLarge);
    }
    Ok(())
}

async fn read_large_form(
    exchange: &mut Exchange<'_>,
    backend: &Backend,
    limit: u64,
) -> Result<Map<String, Value>> {
    buffer(exchange, limit).await?;
    let bytes = exchange.take_buffered();
    let memory = exchange.memory().cloned();
    if let Some(memory) = &memory {
        memory.reserve(FORM_MEMORY_FACTOR * bytes.len() as u64)?;
    }
    let content_type = exchange.headers().get(CONTENT_TYPE).cloned();
    let slot = backend.budgets.parser().await?;
    parameters::large_form(content_type, bytes, memory, slot).await
}

async fn read_large_json(
    exchange: &mut Exchange<'_>,
    backend: &Backend,
    limit: u64,
) -> Result<Map<String, Value>> {
    let file = backend.objects.spool().map_err(Error::internal)?;
    let (file, size) = spool::rest(exchange, file, limit).await?;
    let memory = exchange.memory().cloned();
    let slot = backend.budgets.parser().await?;
    if let Some(memory) = &memory {
        // The buffered start is in the file now. The parser copies a text into its own buffer first, which can take as much
        // memory as the whole body.
        memory.resize(size)?;
    }
    let file = file.into_std().await;
    let parse = move || {
        let _slot = slot;
        let attributes = parameters::json_file(&file, size, memory.as_ref());
        if let Some(memory) = &memory {
            memory.release(size);
        }
        attributes
    };
    tokio::task::spawn_blocking(parse)
        .await
        .map_err(Error::internal)?
}
