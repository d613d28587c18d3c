//! Counts the memory of responses, also of parts of a content, until the client has read them. Streams are not counted.

use std::io::{self, Write};
use std::sync::Arc;

use bytes::Bytes;
use domain::kernel::Backend;
use domain::kernel::budgets::{Holder, RequestMemory, UNCOUNTED_RESPONSE_BYTES};
use domain::kernel::download::WriteContent;
use domain::kernel::error::{Error, Result};
use poem::http::StatusCode;
use poem::{Body, Request, Response};
use serde::Serialize;

use crate::api::client_address::address_key;
use crate::api::response_cache::WholeBody;

/// Returns the memory of a request of a user, or of a caller who is not a user.
pub(crate) fn of_request(backend: &Backend, request: &Request, user_id: Option<i64>) -> RequestMemory {
    let holder = Holder {
        user_id,
        address: address_key(request).map(Arc::from),
    };
    RequestMemory::new(backend.budgets.memory.reservation(holder))
}

/// Serializes a response body, and reserves its memory while it grows.
///
/// # Errors
/// [`Error::Overloaded`] if too little memory is left; [`Error::Internal`] if the value cannot be serialized.
pub(crate) fn to_json(body: &impl Serialize, memory: Option<&RequestMemory>) -> Result<Vec<u8>> {
    let mut writer = CountingWriter::new(memory);
    let written = serde_json::to_writer(&mut writer, body);
    writer.finish(written)
}

/// Writes content, and reserves its memory while it grows.
///
/// # Errors
/// [`Error::Overloaded`] if too little memory is left; [`Error::Internal`] if the content cannot be written.
pub(super) fn to_bytes(write: WriteContent, memory: Option<&RequestMemory>) -> Result<Vec<u8>> {
    let mut writer = CountingWriter::new(memory);
    let written = write(&mut writer);
    writer.finish(written)
}

struct CountingWriter<'a> {
    bytes: Vec<u8>,
    reserved: usize,
    memory: Option<&'a RequestMemory>,
    is_overloaded: bool,
}

impl<'a> CountingWriter<'a> {
    fn new(memory: Option<&'a RequestMemory>) -> Self {
        Self {
            bytes: Vec::with_capacity(128),
            reserved: UNCOUNTED_RESPONSE_BYTES,
            memory,
            is_overloaded: false,
        }
    }

    /// Returns the written bytes.
    fn finish<E>(self, written: Result<(), E>) -> Result<Vec<u8>>
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        match written {
            Ok(()) => Ok(self.bytes),
            Err(_) if self.is_overloaded => Err(Error::Overloaded),
            Err(error) => Err(Error::internal(error)),
        }
    }

    /// Reserves as much again, because the vector doubles its capacity.
    fn reserve(&mut self, size: usize) -> io::Result<()> {
        let missing = size.max(2 * self.reserved) - self.reserved;
        if let Some(memory) = self.memory
            && memory.reserve(missing as u64).is_err()
        {
            self.is_overloaded = true;
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        self.reserved += missing;
        Ok(())
    }
}

impl Write for CountingWriter<'_> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes).map(|()| bytes.len())
    }

    #[inline]
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let size = self.bytes.len() + bytes.len();
        if size > self.reserved {
            self.reserve(size)?;
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The whole body of a response that is not cached, as an extension.
#[derive(Clone)]
pub(super) struct UncachedBody(pub(super) Bytes);

/// The body of a response that is a part of a larger buffer, as an extension.
#[derive(Clone)]
pub(super) struct PartialBody(pub(super) Bytes);

/// Returns the whole body of a response. Streams have none.
fn whole_body(response: &Response) -> Option<Bytes> {
    let extensions = response.extensions();
    let cached = extensions.get::<WholeBody>().map(|body| &body.0);
    let body = cached.or_else(|| extensions.get::<UncachedBody>().map(|body| &body.0));
    body.cloned()
}

/// Returns a response whose body holds its memory until it was sent or dropped. Streams are returned unchanged.
///
/// # Errors
/// [`Error::Overloaded`] if too little memory is left.
pub(super) fn hold(mut response: Response, memory: Option<&RequestMemory>) -> Result<Response> {
    let Some(memory) = memory else {
        return Ok(response);
    };
    if let Some(PartialBody(part)) = response.extensions_mut().remove() {
        // A copy, because the part would prevent the release of its whole buffer.
        let part = Bytes::copy_from_slice(&part);
        response.set_body(Body::from_bytes(hold_bytes(part, memory)?));
        return Ok(response);
    }
    if let Some(bytes) = whole_body(&response)
        && bytes.len() > UNCOUNTED_RESPONSE_BYTES
    {
        response.set_body(Body::from_bytes(held(bytes, memory)?));
    }
    Ok(response)
}

/// Returns a response from the cache whose body holds its memory until it was sent or dropped. `memory` returns the
/// memory of the request, and is called only if the body is counted.
///
/// # Errors
/// [`Error::Overloaded`] if too little memory is left.
pub(super) fn hold_cached(
    mut response: Response,
    body: WholeBody,
    memory: impl FnOnce() -> RequestMemory,
) -> Result<Response> {
    let has_body = response.status() != StatusCode::NOT_MODIFIED;
    if has_body && body.0.len() > UNCOUNTED_RESPONSE_BYTES {
        response.set_body(Body::from_bytes(held(body.0, &memory())?));
    }
    Ok(response)
}

/// Returns the bytes of a body that hold their memory until they were sent or dropped. Small bodies are returned
/// unchanged.
///
/// # Errors
/// [`Error::Overloaded`] if too little memory is left.
pub(crate) fn hold_bytes(bytes: Bytes, memory: &RequestMemory) -> Result<Bytes> {
    match bytes.len() > UNCOUNTED_RESPONSE_BYTES {
        true => held(bytes, memory),
        false => Ok(bytes),
    }
}

/// Returns bytes that hold their memory until they are dropped. The request then holds no other memory.
fn held(bytes: Bytes, memory: &RequestMemory) -> Result<Bytes> {
    memory.resize(bytes.len() as u64)?;
    let memory = memory.clone();
    Ok(Bytes::from_owner(HeldBytes {
        bytes,
        _memory: memory,
    }))
}

/// Bytes whose memory is reserved until they are dropped.
struct HeldBytes {
    bytes: Bytes,
    _memory: RequestMemory,
}

impl AsRef<[u8]> for HeldBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use domain::kernel::budgets::{BudgetSettings, Budgets, Holder};

    use super::*;

    fn budgets(memory_bytes: u64) -> Budgets {
        Budgets::new(&BudgetSettings {
            memory_bytes,
            ..BudgetSettings::default()
        })
    }

    fn memory(budgets: &Budgets) -> RequestMemory {
        RequestMemory::new(budgets.memory.reservation(Holder::default()))
    }

    #[tokio::test]
    async fn response_holds_its_memory_until_it_is_sent() {
        let budgets = budgets(8 << 20);
        let memory = memory(&budgets);
        let text = "x".repeat(1 << 20);
        let json = to_json(&text, Some(&memory)).expect("JSON");
        let reserved = budgets.memory.used();
        assert!(reserved >= 1 << 20, "{reserved}");
        let size = json.len();
        let body = WholeBody(json.into());
        let response = Response::builder().extension(body.clone()).body(body.body());
        let response = hold(response, Some(&memory)).expect("a response");
        drop((memory, body));
        assert_eq!(budgets.memory.used(), size as u64);
        let sent = response.into_body().into_bytes().await.expect("bytes");
        assert_eq!((sent.len(), budgets.memory.used()), (size, size as u64));
        drop(sent);
        assert_eq!(budgets.memory.used(), 0);
    }

    #[tokio::test]
    async fn uncached_response_holds_its_memory_until_it_is_sent() {
        let budgets = budgets(8 << 20);
        let memory = memory(&budgets);
        let size = 1 << 20;
        let write: WriteContent = Box::new(move |writer| writer.write_all(&vec![b'x'; size]));
        let body = Bytes::from(to_bytes(write, Some(&memory)).expect("content"));
        let reserved = budgets.memory.used();
        assert!(reserved >= (size - UNCOUNTED_RESPONSE_BYTES) as u64, "{reserved}");
        let response = Response::builder()
            .extension(UncachedBody(body.clone()))
            .body(Body::from_bytes(body));
        let response = hold(response, Some(&memory)).expect("a response");
        drop(memory);
        assert_eq!(budgets.memory.used(), size as u64);
        drop(response);
        assert_eq!(budgets.memory.used(), 0);
    }

    #[tokio::test]
    async fn part_of_a_body_holds_only_its_own_memory() {
        let budgets = budgets(8 << 20);
        let used = Arc::new(());
        for (size, held) in [(100, 0), (1 << 20, 1 << 20)] {
            let memory = memory(&budgets);
            memory.reserve(4 << 20).expect("memory");
            let whole = Bytes::from_owner(CountedBytes {
                bytes: vec![b'x'; 2 << 20],
                _counter: Arc::clone(&used),
            });
            let part = whole.slice(1..=size);
            let response = Response::builder()
                .extension(PartialBody(part.clone()))
                .body(Body::from_bytes(part));
            drop(whole);
            let response = hold(response, Some(&memory)).expect("a response");
            drop(memory);
            assert_eq!(
                (budgets.memory.used(), Arc::strong_count(&used)),
                (held, 1),
                "{size}"
            );
            let sent = response.into_body().into_bytes().await.expect("bytes");
            assert_eq!(sent.len(), size);
            drop(sent);
            assert_eq!(budgets.memory.used(), 0);
        }
    }

    /// Bytes that exist as long as their clone of the counter.
    struct CountedBytes {
        bytes: Vec<u8>,
        _counter: Arc<()>,
    }

    impl AsRef<[u8]> for CountedBytes {
        fn as_ref(&self) -> &[u8] {
            &self.bytes
        }
    }

    #[test]
    fn content_beyond_budget_is_not_written() {
        let budgets = budgets(1 << 20);
        let memory = memory(&budgets);
        let write = || -> WriteContent {
            Box::new(|writer| (0..2 << 10).try_for_each(|_| writer.write_all(&[b'x'; 1 << 10])))
        };
        assert!(matches!(to_bytes(write(), Some(&memory)), Err(Error::Overloaded)));
        assert!(to_bytes(write(), None).is_ok());
        let broken: WriteContent = Box::new(|_| Err(io::ErrorKind::InvalidData.into()));
        assert!(matches!(to_bytes(broken, None), Err(Error::Internal(_))));
    }

    #[test]
    fn response_beyond_budget_is_not_built() {
        let budgets = budgets(1 << 20);
        let memory = memory(&budgets);
        let texts = vec!["x".repeat(1 << 10); 2 << 10];
        assert!(matches!(to_json(&texts, Some(&memory)), Err(Error::Overloaded)));
        assert!(to_json(&texts, None).is_ok());
        assert!(to_json(&texts[..10].to_vec(), Some(&memory)).is_ok());
    }
}
