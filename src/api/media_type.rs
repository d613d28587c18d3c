//! Media types of request bodies.

use poem::http::HeaderMap;
use poem::http::header::CONTENT_TYPE;

/// Returns the media type of a body without parameters, in lowercase.
pub(super) fn essence(headers: &HeaderMap) -> String {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = content_type.unwrap_or_default().split(';').next();
    essence.unwrap_or_default().trim().to_ascii_lowercase()
}
