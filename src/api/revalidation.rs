//! Entity tags of JSON responses, and `If-None-Match` (RFC 9110 13.1.2).
//!
//! A tag is a digest of the response and its caller, computed in one pass over the response. It does not reveal
//! whether another caller gets the same response.

use poem::Response;
use poem::http::StatusCode;
use poem::http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderMap, IF_NONE_MATCH};
use sha2::{Digest, Sha256};

use crate::api::exchange::Exchange;
use crate::api::response_cache::WholeBody;

/// Clients may store a response but must revalidate it before each use.
const CACHE_POLICY: &str = "max-age=0, private, must-revalidate";

/// Returns the response to a GET with its tag.
pub(super) fn tagged(json: Vec<u8>, exchange: &Exchange<'_>) -> Response {
    let tag = tag(&json, exchange.caller());
    let length = json.len();
    let body = WholeBody(json.into());
    Response::builder()
        .header(ETAG, &tag)
        .header(CACHE_CONTROL, CACHE_POLICY)
        .content_type(exchange.operation().media_type)
        .header(CONTENT_LENGTH, length)
        .extension(body.clone())
        .body(body.body())
}

/// Returns the response, or 304 if the caller has the current version.
pub(super) fn revalidated(mut response: Response, request: &HeaderMap) -> Response {
    let tag = response.headers().get(ETAG).and_then(|tag| tag.to_str().ok());
    let is_current = tag.is_some_and(|tag| none_match(request, tag));
    if is_current && response.status() == StatusCode::OK {
        response.set_status(StatusCode::NOT_MODIFIED);
        response.headers_mut().remove(CONTENT_LENGTH);
        response.headers_mut().remove(CONTENT_TYPE);
        response.set_body(());
    }
    response
}

fn tag(json: &[u8], caller: Option<i64>) -> String {
    let mut digest = Sha256::new();
    digest.update(caller.unwrap_or_default().to_le_bytes());
    digest.update(json);
    format!("W/\"{}\"", hex::encode(&digest.finalize()[..16]))
}

/// Returns whether `If-None-Match` contains the entity tag, by weak comparison.
#[must_use]
pub fn none_match(request: &HeaderMap, tag: &str) -> bool {
    let opaque = |tag: &str| tag.strip_prefix("W/").unwrap_or(tag).to_owned();
    let values = request
        .get_all(IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok());
    let mut tags = values.flat_map(|value| value.split(',')).map(str::trim);
    tags.any(|known| known == "*" || opaque(known) == opaque(tag))
}

#[cfg(test)]
mod tests {
    use poem::http::HeaderValue;

    use super::*;

    #[test]
    fn none_match_compares_weakly_and_reads_lists() {
        let headers = |value| HeaderMap::from_iter([(IF_NONE_MATCH, HeaderValue::from_static(value))]);
        for tag in ["\"abc\"", "W/\"abc\""] {
            assert!(none_match(&headers("\"x\", W/\"abc\""), tag));
            assert!(none_match(&headers("\"abc\""), tag));
            assert!(none_match(&headers("*"), tag));
            assert!(!none_match(&headers("\"abcd\""), tag));
        }
    }

    #[test]
    fn tag_depends_on_response_and_caller() {
        assert_eq!(tag(b"{}", Some(1)), tag(b"{}", Some(1)));
        assert_ne!(tag(b"{}", Some(1)), tag(b"{}", Some(2)));
        assert_ne!(tag(b"{}", Some(1)), tag(b"{}", None));
        assert_ne!(tag(b"{}", None), tag(b"[]", None));
    }
}
