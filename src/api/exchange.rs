//! State of one request in the edge.

use std::borrow::Cow;
use std::io::ErrorKind;

use contract::operation::Operation;
use domain::accounts::uploads::UploadedFile;
use domain::kernel::budgets::{RequestMemory, UNCOUNTED_REQUEST_BYTES, UploadSlot};
use domain::kernel::caller::Caller;
use domain::kernel::error::{Error, Result};
use domain::kernel::page::PageRequest;
use futures_util::StreamExt;
use percent_encoding::percent_decode_str;
use poem::http::HeaderMap;
use poem::http::header::CONTENT_LENGTH;
use poem::{Body, Request, RequestBody};

use crate::api::access_record;
use crate::api::paging::BodyFilters;
use crate::api::response_cache::MissingResponse;

/// The absolute base URL of the server without a trailing slash; attached to every request.
#[derive(Clone)]
pub struct BaseUrl(pub std::sync::Arc<str>);

/// A request and the data derived from it.
pub struct Exchange<'a> {
    operation: &'static Operation,
    request: &'a Request,
    /// Whether the response has no body, because the request is a HEAD that is processed as a GET.
    is_head: bool,
    /// Whether the request has no body.
    has_no_body: bool,
    body: RequestBody,
    page: Option<PageRequest>,
    body_filters: BodyFilters,
    caller: Option<i64>,
    /// The caller, until authorization takes it.
    pub(super) identified: Option<Caller>,
    /// The response as a cache entry, if it can be cached.
    pub(super) missing_response: Option<Box<MissingResponse>>,
    file: Option<UploadedFile>,
    /// Slot of an upload, until the response was created.
    upload_slot: Option<UploadSlot>,
    /// The start of the body.
    buffered: Vec<u8>,
    /// Bytes that are reserved for the buffered body.
    reserved: u64,
    /// Memory of the request, once the caller is known.
    memory: Option<RequestMemory>,
}

impl<'a> Exchange<'a> {
    /// Starts the exchange of an operation.
    #[must_use]
    pub fn new(operation: &'static Operation, request: &'a Request, body: RequestBody) -> Self {
        access_record::record_operation(request, operation);
        let (has_no_body, body) = with_emptiness(body);
        Self {
            operation,
            request,
            is_head: false,
            has_no_body,
            body,
            page: None,
            body_filters: BodyFilters::default(),
            caller: None,
            identified: None,
            missing_response: None,
            file: None,
            upload_slot: None,
            buffered: Vec::new(),
            reserved: 0,
            memory: None,
        }
    }

    /// Returns the operation.
    #[must_use]
    pub fn operation(&self) -> &'static Operation {
        self.operation
    }

    /// Returns the request.
    #[must_use]
    pub fn request(&self) -> &'a Request {
        self.request
    }

    /// Returns the request's headers.
    #[must_use]
    pub fn headers(&self) -> &'a HeaderMap {
        self.request.headers()
    }

    /// Returns whether the response has no body, because the request is a HEAD that is processed as a GET.
    #[must_use]
    pub fn is_head(&self) -> bool {
        self.is_head
    }

    /// Records that the request is a HEAD that is processed as a GET.
    pub fn set_head(&mut self) {
        self.is_head = true;
    }

    /// Returns whether the request has no body. A body whose length is not known counts as a body.
    #[must_use]
    pub fn has_no_body(&self) -> bool {
        self.has_no_body
    }

    /// Returns the raw query string.
    #[must_use]
    pub fn raw_query(&self) -> &'a str {
        self.request.original_uri().query().unwrap_or_default()
    }

    /// Returns the request's URL below the configured base URL, without its query.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}{}", self.base_url(), self.request.original_uri().path())
    }

    /// Returns the configured base URL.
    #[must_use]
    pub fn base_url(&self) -> &str {
        self.request.data::<BaseUrl>().map_or("", |base| &*base.0)
    }

    /// Returns the ID of the caller, once known.
    #[must_use]
    pub fn caller(&self) -> Option<i64> {
        self.caller
    }

    /// Stores the ID of the caller.
    pub fn set_caller(&mut self, caller: Option<i64>) {
        self.caller = caller;
    }

    /// Returns the memory of the request, once the caller is known.
    #[must_use]
    pub fn memory(&self) -> Option<&RequestMemory> {
        self.memory.as_ref()
    }

    /// Stores the memory of the request.
    pub fn set_memory(&mut self, memory: RequestMemory) {
        self.memory = Some(memory);
    }

    /// Returns the requested page; the first one if it is not known yet.
    #[must_use]
    pub fn page(&self) -> PageRequest {
        self.page.unwrap_or_default()
    }

    /// Stores the requested page.
    pub fn set_page(&mut self, page: PageRequest) {
        self.page = Some(page);
    }

    /// Returns the filters of a list that the body contains.
    #[must_use]
    pub fn body_filters(&self) -> &BodyFilters {
        &self.body_filters
    }

    /// Stores the filters of a list that the body contains.
    pub fn set_body_filters(&mut self, filters: BodyFilters) {
        self.body_filters = filters;
    }

    /// Returns the decoded path parameters in the order of the template.
    ///
    /// # Errors
    /// [`Error::InvalidParameters`] if one is not UTF-8.
    pub fn path(&self) -> Result<Vec<(&'static str, String)>> {
        // Middleware may have encoded a slash in this path.
        let sent = self.request.uri().path();
        let (sent, rest) = match self.operation.rest {
            true => split_rest(sent, self.operation.path),
            false => (sent, None),
        };
        let sent = sent.split('/');
        let template = self.operation.path.split('/');
        // An ignored duplicate slash leaves an empty segment, which is not a value.
        let has_extra_slash = sent.clone().count() > template.clone().count();
        let sent = sent
            .enumerate()
            .filter(|(index, segment)| *index == 0 || !has_extra_slash || !segment.is_empty());
        let mut values = Vec::new();
        let sent = sent.map(|(_, segment)| segment).chain(rest);
        for (pattern, segment) in template.zip(sent) {
            let Some((prefix, name)) = pattern.split_once('{') else {
                continue;
            };
            let name = name.trim_end_matches('}');
            let raw = segment.strip_prefix(prefix).unwrap_or(segment);
            let value = percent_decode_str(raw)
                .decode_utf8()
                .map(Cow::into_owned)
                .map_err(|_| Error::parameter(format!("{name} is invalid")))?;
            values.push((name, value));
        }
        Ok(values)
    }

    /// Takes the file of a form or of a raw body; `None` on later calls.
    pub fn file(&mut self) -> Option<UploadedFile> {
        self.file.take()
    }

    /// Takes the required file of a form.
    ///
    /// # Errors
    /// [`Error::InvalidParameters`] if the form has no file.
    pub fn required_file(&mut self) -> Result<UploadedFile> {
        let name = self.operation.file.as_ref().map_or("file", |file| file.name);
        self.file()
            .ok_or_else(|| Error::parameter(format!("{name} is missing")))
    }

    /// Stores the file of a form.
    pub fn set_file(&mut self, file: UploadedFile) {
        self.file = Some(file);
    }

    /// Stores the slot of an upload.
    pub fn set_upload_slot(&mut self, slot: UploadSlot) {
        self.upload_slot = Some(slot);
    }

    /// Returns the length of the body in bytes, if the request announces it.
    #[must_use]
    pub fn content_length(&self) -> Option<u64> {
        self.headers()
            .get(CONTENT_LENGTH)
            .and_then(|value| value.to_str().ok()?.parse().ok())
    }

    /// Takes the body for streaming. It must not be buffered before.
    ///
    /// # Errors
    /// [`Error::TooLarge`] if its `Content-Length` exceeds the limit of the operation.
    pub fn take_body(&mut self) -> Result<RequestBody> {
        if self
            .content_length()
            .is_some_and(|length| length > self.operation.body_limit)
        {
            return Err(Error::TooLarge);
        }
        Ok(std::mem::take(&mut self.body))
    }

    /// Reads the body into memory until it ends or has more than `limit` bytes. Returns whether it ended.
    ///
    /// # Errors
    /// [`Error::TimedOut`] if the body arrives too slowly, [`Error::InvalidParameters`] if it arrives in tiny chunks
    /// or the connection breaks, [`Error::Overloaded`] if too little memory is left.
    pub async fn buffer_body(&mut self, limit: u64) -> Result<bool> {
        let Ok(body) = self.body.take() else {
            return Ok(true);
        };
        let mut chunks = body.into_bytes_stream();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|error| broken(&error))?;
            let size = (self.buffered.len() + chunk.len()) as u64;
            if size > UNCOUNTED_REQUEST_BYTES {
                self.reserve(size)?;
            }
            self.buffered.extend_from_slice(&chunk);
            if size > limit {
                self.body = RequestBody::new(Body::from_bytes_stream(chunks));
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Takes the buffered bytes.
    pub fn take_buffered(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffered)
    }

    /// Takes the rest of the body behind the buffered bytes; `None` if it ended.
    pub fn take_rest(&mut self) -> Option<Body> {
        self.body.take().ok()
    }

    /// Reserves memory up to `size` bytes for the buffered body.
    fn reserve(&mut self, size: u64) -> Result<()> {
        if let Some(memory) = &self.memory {
            memory.reserve(size - self.reserved)?;
            self.reserved = size;
        }
        Ok(())
    }
}

/// Returns whether a body is empty, and the body. The headers do not decide: over HTTP/2, a body needs neither
/// `Content-Length` nor `Transfer-Encoding`.
fn with_emptiness(mut body: RequestBody) -> (bool, RequestBody) {
    match body.take() {
        Ok(body) => (body.is_empty(), RequestBody::new(body)),
        Err(_) => (true, RequestBody::default()),
    }
}

/// Splits a path at the segment that begins the rest of the path, which is the last segment of the template.
fn split_rest<'a>(path: &'a str, template: &str) -> (&'a str, Option<&'a str>) {
    let slash = path
        .match_indices('/')
        .nth(template.matches('/').count().saturating_sub(1));
    let parts = slash.and_then(|(position, _)| Some((path.get(..position)?, path.get(position + 1..)?)));
    match parts {
        Some((head, rest)) => (head, Some(rest.strip_suffix('/').unwrap_or(rest))),
        None => (path, None),
    }
}

/// Returns the error for a body that does not arrive.
pub(super) fn broken(error: &std::io::Error) -> Error {
    match error.kind() {
        ErrorKind::TimedOut => Error::TimedOut,
        ErrorKind::InvalidData => Error::parameter("the body was sent in too many small chunks"),
        _ => Error::parameter("the body is incomplete"),
    }
}
