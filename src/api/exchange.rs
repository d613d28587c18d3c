//! One request on its way through the edge.

use std::borrow::Cow;
use std::io::ErrorKind;

use percent_encoding::percent_decode_str;
use poem::http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use poem::http::{HeaderMap, HeaderValue};
use poem::{FromRequest, Request, RequestBody};
use tokio::io::AsyncReadExt;

use crate::api::answers::Memorable;
use crate::api::operation::Operation;
use crate::error::{Error, Result};
use crate::services::authentication::Caller;
use crate::services::kernel::page::PageRequest;
use crate::services::uploads::UploadedFile;

/// The request as the router hands it over.
pub struct Call<'a> {
    request: &'a Request,
    body: RequestBody,
}

impl<'a> FromRequest<'a> for Call<'a> {
    async fn from_request(request: &'a Request, body: &mut RequestBody) -> poem::Result<Self> {
        Ok(Self {
            request,
            body: std::mem::take(body),
        })
    }
}

/// The absolute base URL of the server, without a final slash; attached to every request.
#[derive(Clone)]
pub struct BaseUrl(pub std::sync::Arc<str>);

/// One request and what became known of it.
pub struct Exchange<'a> {
    operation: &'static Operation,
    call: Call<'a>,
    page: Option<PageRequest>,
    caller: Option<i64>,
    /// Who calls, until the guard takes it.
    pub(super) identified: Option<Caller>,
    /// Under which key to remember the answer, if at all.
    pub(super) memorable: Option<Memorable>,
    file: Option<UploadedFile>,
}

impl<'a> Exchange<'a> {
    /// Begins the exchange for an operation.
    #[must_use]
    pub fn new(operation: &'static Operation, call: Call<'a>) -> Self {
        Self {
            operation,
            call,
            page: None,
            caller: None,
            identified: None,
            memorable: None,
            file: None,
        }
    }

    /// The operation that was called.
    #[must_use]
    pub fn operation(&self) -> &'static Operation {
        self.operation
    }

    /// The request.
    #[must_use]
    pub fn request(&self) -> &'a Request {
        self.call.request
    }

    /// The request's headers.
    #[must_use]
    pub fn headers(&self) -> &'a HeaderMap {
        self.call.request.headers()
    }

    /// Whether the request came without a body.
    #[must_use]
    pub fn is_bare(&self) -> bool {
        let empty = |length: &HeaderValue| length == "0";
        let headers = self.headers();
        headers.get(CONTENT_LENGTH).is_none_or(empty) && !headers.contains_key(TRANSFER_ENCODING)
    }

    /// The query string as it was sent.
    #[must_use]
    pub fn raw_query(&self) -> &'a str {
        self.call.request.original_uri().query().unwrap_or_default()
    }

    /// The request's URL below the configured base, without its query.
    #[must_use]
    pub fn url(&self) -> String {
        let base = self.call.request.data::<BaseUrl>().map_or("", |base| &*base.0);
        format!("{base}{}", self.call.request.original_uri().path())
    }

    /// The number of the caller, once known.
    #[must_use]
    pub fn caller(&self) -> Option<i64> {
        self.caller
    }

    /// Remembers who calls.
    pub fn set_caller(&mut self, caller: Option<i64>) {
        self.caller = caller;
    }

    /// The page that was asked for, once known.
    #[must_use]
    pub fn page(&self) -> Option<PageRequest> {
        self.page
    }

    /// Remembers the page that was asked for.
    pub fn set_page(&mut self, page: PageRequest) {
        self.page = Some(page);
    }

    /// The decoded placeholders of the path, in the order of the template.
    ///
    /// # Errors
    /// [`Error::InvalidParameters`] when one is no UTF-8.
    pub fn path(&self) -> Result<Vec<(&'static str, String)>> {
        let sent = self.call.request.original_uri().path().split('/');
        let template = self.operation.path.split('/');
        // A slash too many was overlooked on the way here, and stands between no values.
        let overlooked = sent.clone().count() > template.clone().count();
        let sent = sent
            .enumerate()
            .filter(|(index, segment)| *index == 0 || !overlooked || !segment.is_empty());
        let mut values = Vec::new();
        for (pattern, (_, segment)) in template.zip(sent) {
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

    /// The file that a form carried, or that the body became; to be asked once.
    pub fn file(&mut self) -> Option<UploadedFile> {
        self.file.take()
    }

    /// The file that a form must carry; to be asked once.
    ///
    /// # Errors
    /// [`Error::InvalidParameters`] when it did not.
    pub fn required_file(&mut self) -> Result<UploadedFile> {
        let name = self.operation.file.as_ref().map_or("file", |file| file.name);
        self.file()
            .ok_or_else(|| Error::parameter(format!("{name} is missing")))
    }

    /// Keeps the file that a form carried.
    pub fn set_file(&mut self, file: UploadedFile) {
        self.file = Some(file);
    }

    /// The body, for reading it piece by piece.
    ///
    /// # Errors
    /// [`Error::TooLarge`] when it announces more than the operation takes.
    pub fn take_body(&mut self) -> Result<RequestBody> {
        let limit = self.operation.body_limit;
        let announced = self.headers().get(CONTENT_LENGTH);
        let announced = announced.and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        if announced.is_some_and(|length| length > limit) {
            return Err(Error::TooLarge);
        }
        Ok(std::mem::take(&mut self.call.body))
    }

    /// Reads the body, at most so many bytes.
    ///
    /// # Errors
    /// [`Error::TooLarge`] beyond the limit, [`Error::TimedOut`] when it comes too slowly,
    /// [`Error::InvalidParameters`] when it comes in tiny pieces or the connection breaks off.
    pub async fn read_body(&mut self, limit: u64) -> Result<Vec<u8>> {
        let announced = self
            .headers()
            .get(CONTENT_LENGTH)
            .and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        if announced.is_some_and(|length| length > limit) {
            return Err(Error::TooLarge);
        }
        let Ok(body) = self.call.body.take() else {
            return Ok(Vec::new());
        };
        let mut bytes = Vec::with_capacity(
            announced
                .and_then(|length| usize::try_from(length).ok())
                .unwrap_or(0),
        );
        let mut reader = body.into_async_read().take(limit.saturating_add(1));
        reader
            .read_to_end(&mut bytes)
            .await
            .map_err(|error| broken(&error))?;
        if bytes.len() as u64 > limit {
            Err(Error::TooLarge)
        } else {
            Ok(bytes)
        }
    }
}

/// What is told of a body that does not arrive.
pub(super) fn broken(error: &std::io::Error) -> Error {
    match error.kind() {
        ErrorKind::TimedOut => Error::TimedOut,
        ErrorKind::InvalidData => Error::parameter("the body was sent in too many small chunks"),
        _ => Error::parameter("the body is incomplete"),
    }
}
