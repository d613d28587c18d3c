//! Downloads over HTTP: entity tags, `If-None-Match`, single ranges, safe content types and file names.

use bytes::Bytes;
use domain::kernel::budgets::RequestMemory;
use domain::kernel::download::{Download, DownloadContent, WriteContent};
use domain::kernel::error::Result;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use poem::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG,
    EXPIRES, IF_RANGE, PRAGMA, RANGE, VARY,
};
use poem::http::{HeaderMap, HeaderValue, StatusCode};
use poem::{Body, Response};

use crate::api::error_response;
use crate::api::exchange::Exchange;
use crate::api::media_type::preferred_type;
use crate::api::response::{Success, set_headers};
use crate::api::response_cache::WholeBody;
use crate::api::response_memory::{PartialBody, UncachedBody, to_bytes};
use crate::api::revalidation::none_match;

/// Characters that need no escaping in `filename*` (RFC 5987).
const ATTR_CHAR: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b'-')
    .remove(b'.')
    .remove(b'^')
    .remove(b'_')
    .remove(b'`')
    .remove(b'|')
    .remove(b'~');

impl Success for Download {
    fn render(self, status: StatusCode, exchange: &Exchange<'_>) -> Result<Response> {
        match self.content {
            DownloadContent::Alternatives(alternatives) => {
                negotiated(alternatives, status, exchange.headers(), exchange.memory())
            }
            _ => {
                // Other operations do not document the statuses of ranges.
                let statuses = exchange.operation().statuses;
                let has_ranges = statuses.contains(&StatusCode::PARTIAL_CONTENT.as_u16());
                Ok(respond(self, status, exchange.headers(), has_ranges))
            }
        }
    }
}

/// Returns the response of a download, or of the part that the request selects.
#[must_use]
pub fn render(download: Download, status: StatusCode, request: &HeaderMap) -> Response {
    respond(download, status, request, true)
}

/// Returns the response of a download. Without ranges, the header `Range` of the request is ignored.
fn respond(download: Download, status: StatusCode, request: &HeaderMap, has_ranges: bool) -> Response {
    let Download {
        content_type,
        file_name,
        attachment,
        etag,
        headers,
        content,
    } = download;
    let content = match content {
        DownloadContent::Alternatives(alternatives) => {
            let response = negotiated(alternatives, status, request, None);
            return response.unwrap_or_else(|error| error_response::render(&error));
        }
        content => content,
    };
    let tag = etag.map(|id| format!("\"{id}\""));
    let mut response = if tag.as_deref().is_some_and(|tag| none_match(request, tag)) {
        Response::builder().status(StatusCode::NOT_MODIFIED).finish()
    } else {
        send(content, status, request, tag.as_deref(), has_ranges)
    };
    let answer = response.headers_mut();
    let insert = |answer: &mut HeaderMap, name, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            answer.insert(name, value);
        }
    };
    insert(answer, CONTENT_DISPOSITION, &disposition(&file_name, attachment));
    // Access to repository content may change, so caches must revalidate it by its tag.
    insert(
        answer,
        CACHE_CONTROL,
        "max-age=0, private, must-revalidate, no-store, no-cache",
    );
    insert(answer, PRAGMA, "no-cache");
    insert(answer, EXPIRES, "Fri, 01 Jan 1990 00:00:00 GMT");
    if let Some(tag) = tag {
        insert(answer, ETAG, &tag);
    }
    set_headers(answer, headers);
    let status = response.status();
    if status.is_success() {
        insert(response.headers_mut(), CONTENT_TYPE, &content_type);
    }
    response
}

/// Returns the content in the media type that the request prefers, and reserves its memory. The response is not cached,
/// because the key of a cached response does not contain the header `Accept`.
///
/// # Errors
/// [`Error::Overloaded`](domain::kernel::error::Error::Overloaded) if too little memory is left.
fn negotiated(
    mut alternatives: Vec<(&'static str, WriteContent)>,
    status: StatusCode,
    request: &HeaderMap,
    memory: Option<&RequestMemory>,
) -> Result<Response> {
    let offered: Vec<&str> = alternatives.iter().map(|(media_type, _)| *media_type).collect();
    let (media_type, write) = alternatives.swap_remove(preferred_type(request, &offered));
    let bytes = Bytes::from(to_bytes(write, memory)?);
    Ok(Response::builder()
        .status(status)
        .content_type(media_type)
        .header(CONTENT_LENGTH, bytes.len())
        .header(CACHE_CONTROL, "max-age=0, private, must-revalidate")
        .header(VARY, "Accept")
        .extension(UncachedBody(bytes.clone()))
        .body(Body::from_bytes(bytes)))
}

fn send(
    content: DownloadContent,
    status: StatusCode,
    request: &HeaderMap,
    tag: Option<&str>,
    has_ranges: bool,
) -> Response {
    let size = match &content {
        DownloadContent::Bytes(bytes) => bytes.len() as u64,
        DownloadContent::Seekable { size, .. } => *size,
        DownloadContent::Alternatives(_) => 0,
        DownloadContent::Stream(_) => {
            let DownloadContent::Stream(stream) = content else {
                return Response::default();
            };
            return Response::builder()
                .status(status)
                .body(Body::from_bytes_stream(stream));
        }
    };
    let range = match has_ranges {
        true => requested_range(request, tag, size),
        false => RequestedRange::Whole,
    };
    match range {
        RequestedRange::Whole => {
            let mut builder = Response::builder().status(status);
            if has_ranges {
                builder = builder.header(ACCEPT_RANGES, "bytes");
            }
            if let DownloadContent::Bytes(bytes) = &content {
                builder = builder.extension(WholeBody(bytes.clone()));
            }
            builder.header(CONTENT_LENGTH, size).body(cut(content, 0, size))
        }
        RequestedRange::Part(start, end) => {
            let mut builder = Response::builder()
                .status(StatusCode::PARTIAL_CONTENT)
                .header(ACCEPT_RANGES, "bytes")
                .header(CONTENT_RANGE, format!("bytes {start}-{}/{size}", end - 1));
            if let DownloadContent::Bytes(bytes) = &content {
                let part = part_of(bytes, start, end);
                builder = match part.len() == bytes.len() {
                    true => builder.extension(UncachedBody(part)),
                    false => builder.extension(PartialBody(part)),
                };
            }
            builder
                .header(CONTENT_LENGTH, end - start)
                .body(cut(content, start, end))
        }
        RequestedRange::Impossible => {
            let text = "416 Range Not Satisfiable";
            let body = serde_json::json!({ "message": text, "error": text });
            Response::builder()
                .status(StatusCode::RANGE_NOT_SATISFIABLE)
                .header(CONTENT_RANGE, format!("bytes */{size}"))
                .content_type("application/json")
                .body(body.to_string())
        }
    }
}

fn cut(content: DownloadContent, start: u64, end: u64) -> Body {
    match content {
        DownloadContent::Bytes(bytes) => Body::from_bytes(part_of(&bytes, start, end)),
        DownloadContent::Seekable { open, .. } => Body::from_bytes_stream(open(start, end)),
        DownloadContent::Stream(stream) => Body::from_bytes_stream(stream),
        DownloadContent::Alternatives(_) => Body::empty(),
    }
}

/// Returns the bytes from `start` (inclusive) to `end` (exclusive).
fn part_of(bytes: &Bytes, start: u64, end: u64) -> Bytes {
    let index = |position: u64| usize::try_from(position).unwrap_or(bytes.len()).min(bytes.len());
    bytes.slice(index(start)..index(end))
}

#[derive(Debug, PartialEq, Eq)]
enum RequestedRange {
    Whole,
    Part(u64, u64),
    Impossible,
}

/// Returns the part that a request's `Range` selects. Anything but one well-formed byte range selects the
/// whole content (RFC 9110 14.2 allows a server to ignore the header).
fn requested_range(request: &HeaderMap, tag: Option<&str>, size: u64) -> RequestedRange {
    let text = |name| {
        request
            .get(name)
            .and_then(|value: &HeaderValue| value.to_str().ok())
    };
    let Some(range) = text(RANGE).and_then(|range| range.strip_prefix("bytes=")) else {
        return RequestedRange::Whole;
    };
    if text(IF_RANGE).is_some_and(|known| Some(known) != tag) {
        return RequestedRange::Whole;
    }
    let Some((first, last)) = range.split_once('-').filter(|_| !range.contains(',')) else {
        return RequestedRange::Whole;
    };
    match (first.trim().parse::<u64>(), last.trim().parse::<u64>()) {
        (Ok(first), Ok(last)) if first <= last && first < size => {
            RequestedRange::Part(first, last.saturating_add(1).min(size))
        }
        (Ok(first), Err(_)) if last.trim().is_empty() && first < size => RequestedRange::Part(first, size),
        (Err(_), Ok(tail)) if first.trim().is_empty() && tail > 0 && size > 0 => {
            RequestedRange::Part(size.saturating_sub(tail), size)
        }
        (Ok(first), _) if first >= size => RequestedRange::Impossible,
        (Err(_), Ok(0)) if first.trim().is_empty() => RequestedRange::Impossible,
        _ => RequestedRange::Whole,
    }
}

/// Returns `inline; filename="popen.rb"; filename*=UTF-8''popen.rb`.
#[must_use]
pub fn disposition(file_name: &str, attachment: bool) -> String {
    let kind = if attachment { "attachment" } else { "inline" };
    let plain: String = file_name
        .chars()
        .map(|c| {
            if (c.is_ascii_graphic() || c == ' ') && !matches!(c, '"' | '\\' | '%') {
                c
            } else {
                '_'
            }
        })
        .collect();
    format!(
        "{kind}; filename=\"{plain}\"; filename*=UTF-8''{}",
        utf8_percent_encode(file_name, ATTR_CHAR)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(RANGE, HeaderValue::from_static(value))])
    }

    #[test]
    fn ranges_follow_rfc_9110() {
        let requested_range = |value| requested_range(&range(value), None, 10);
        assert_eq!(requested_range("bytes=0-3"), RequestedRange::Part(0, 4));
        assert_eq!(requested_range("bytes=4-"), RequestedRange::Part(4, 10));
        assert_eq!(requested_range("bytes=-3"), RequestedRange::Part(7, 10));
        assert_eq!(requested_range("bytes=-99"), RequestedRange::Part(0, 10));
        assert_eq!(
            requested_range("bytes=5-99999999999999999999"),
            RequestedRange::Whole
        );
        assert_eq!(
            requested_range("bytes=9-18446744073709551615"),
            RequestedRange::Part(9, 10)
        );
        assert_eq!(requested_range("bytes=10-"), RequestedRange::Impossible);
        assert_eq!(requested_range("bytes=-0"), RequestedRange::Impossible);
        assert_eq!(requested_range("bytes=3-1"), RequestedRange::Whole);
        assert_eq!(requested_range("bytes=0-1,3-4"), RequestedRange::Whole);
        assert_eq!(requested_range("lines=0-1"), RequestedRange::Whole);
    }

    #[test]
    fn range_with_stale_if_range_returns_whole_content() {
        let mut headers = range("bytes=0-3");
        headers.insert(IF_RANGE, HeaderValue::from_static("\"old\""));
        assert_eq!(
            requested_range(&headers, Some("\"new\""), 10),
            RequestedRange::Whole
        );
        assert_eq!(
            requested_range(&headers, Some("\"old\""), 10),
            RequestedRange::Part(0, 4)
        );
    }

    #[test]
    fn content_disposition_escapes_file_name() {
        assert_eq!(
            disposition("a\"b\r\nc\\%é.rb", false),
            "inline; filename=\"a_b__c___.rb\"; filename*=UTF-8''a%22b%0D%0Ac%5C%25%C3%A9.rb"
        );
    }
}
