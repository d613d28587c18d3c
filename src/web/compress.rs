//! Compresses text responses for clients that accept it. Raw files, archives and Git transfers are not
//! compressed, because their ranges and tags refer to the original bytes.

use async_compression::tokio::bufread::GzipEncoder;
use poem::http::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, HeaderMap, VARY,
};
use poem::http::{HeaderValue, StatusCode};
use poem::{Body, Endpoint, IntoResponse, Middleware, Request, Response, Result};
use tokio::io::BufReader;

/// Minimum size of a compressed body, in bytes.
const MIN_BYTES: u64 = 1024;
/// Media types that compress well and are never sent in ranges.
const COMPRESSIBLE_TYPES: [&str; 7] = [
    "application/json",
    "application/yaml",
    "text/html",
    "text/css",
    "text/javascript",
    "text/markdown",
    "image/svg+xml",
];

/// Middleware that compresses responses.
pub struct Compression;

impl<E: Endpoint> Middleware<E> for Compression {
    type Output = CompressionEndpoint<E>;

    fn transform(&self, inner: E) -> Self::Output {
        CompressionEndpoint { inner }
    }
}

/// See [`Compression`].
pub struct CompressionEndpoint<E> {
    inner: E,
}

impl<E: Endpoint> Endpoint for CompressionEndpoint<E> {
    type Output = Response;

    async fn call(&self, request: Request) -> Result<Response> {
        let accepted = accepts_gzip(request.headers());
        let mut response = self.inner.call(request).await?.into_response();
        // A 304 has the `Vary` of the response that it confirms (RFC 9110 15.4.5), but not its media type.
        let is_confirmation = response.status() == StatusCode::NOT_MODIFIED;
        if !is_text(&response) && !is_confirmation {
            return Ok(response);
        }
        response
            .headers_mut()
            .append(VARY, HeaderValue::from_static("Accept-Encoding"));
        if is_confirmation {
            return Ok(response);
        }
        if !accepted || length(response.headers()).is_some_and(|length| length < MIN_BYTES) {
            return Ok(response);
        }
        let body = BufReader::new(response.take_body().into_async_read());
        response.set_body(Body::from_async_read(GzipEncoder::new(body)));
        let headers = response.headers_mut();
        headers.remove(CONTENT_LENGTH);
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        Ok(response)
    }
}

/// Returns whether a client accepts gzip.
pub(super) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers
        .get_all(ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let is_gzip = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
        is_gzip && parts.all(|parameter| weight(parameter).is_none_or(|weight| weight > 0.0))
    })
}

/// Returns the weight of a coding (RFC 9110 12.4.2), or `None` for another parameter. An invalid weight counts as 0.
fn weight(parameter: &str) -> Option<f32> {
    let (name, value) = parameter.split_once('=')?;
    let weight = || value.trim().parse().unwrap_or_default();
    name.trim().eq_ignore_ascii_case("q").then(weight)
}

fn is_text(response: &Response) -> bool {
    let headers = response.headers();
    let essence = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let essence = essence.split(';').next().unwrap_or_default().trim();
    COMPRESSIBLE_TYPES.contains(&essence)
        && response.status() != StatusCode::PARTIAL_CONTENT
        && !headers.contains_key(CONTENT_ENCODING)
        && !headers.contains_key(CONTENT_RANGE)
}

fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_with_weight_zero_is_not_accepted() {
        for (value, expected) in [
            ("gzip", true),
            ("br, GZIP ; q=0.001", true),
            ("gzip;q=1.000", true),
            ("gzip;q=0", false),
            ("gzip;q=0.", false),
            ("gzip;q=0.000", false),
            ("gzip; Q=0", false),
            ("br, gzip ; q = 0.0", false),
            ("gzip;q=x", false),
            ("br;q=1, *;q=0", false),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(value))]);
            assert_eq!(accepts_gzip(&headers), expected, "{value}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }
}
