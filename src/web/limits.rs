//! Limits on the head of a request. The HTTP library has higher limits (`web::connections`), which apply if a
//! request cannot be parsed.

use poem::http::StatusCode;
use poem::{Endpoint, IntoResponse, Middleware, Request, Response, Result};

use crate::api::error_response;

/// Maximum length of path and query together, in bytes: an encoded file path of 4096 bytes takes up to three
/// times as many.
const MAX_URI_BYTES: usize = 16 << 10;
/// Maximum length of the query, in bytes. Pagination links repeat it.
const MAX_QUERY_BYTES: usize = 8 << 10;
/// Maximum size of all header fields together, in bytes.
const MAX_FIELDS_BYTES: usize = 32 << 10;
/// Maximum number of header fields.
const MAX_FIELDS: usize = 100;

/// Middleware that rejects heads that are too large.
pub struct HeadLimits;

impl<E: Endpoint> Middleware<E> for HeadLimits {
    type Output = HeadLimitsEndpoint<E>;

    fn transform(&self, inner: E) -> Self::Output {
        HeadLimitsEndpoint { inner }
    }
}

/// See [`HeadLimits`].
pub struct HeadLimitsEndpoint<E> {
    inner: E,
}

impl<E: Endpoint> Endpoint for HeadLimitsEndpoint<E> {
    type Output = Response;

    async fn call(&self, request: Request) -> Result<Response> {
        if let Some((status, text)) = fault(&request) {
            return Ok(error_response::json_response(
                status,
                &error_response::error_body(status, &text),
            ));
        }
        self.inner.call(request).await.map(IntoResponse::into_response)
    }
}

fn fault(request: &Request) -> Option<(StatusCode, String)> {
    let uri = request.uri();
    let query = uri.query().map_or(0, str::len);
    if query > MAX_QUERY_BYTES {
        let text = format!(
            "the query is too long (maximum is {MAX_QUERY_BYTES} bytes); send the parameters in the body"
        );
        return Some((StatusCode::URI_TOO_LONG, text));
    }
    if uri.path().len() + query > MAX_URI_BYTES {
        return Some((
            StatusCode::URI_TOO_LONG,
            format!("path and query are too long (maximum is {MAX_URI_BYTES} bytes)"),
        ));
    }
    let fields = request.headers();
    // The four bytes are the colon, the space and the line end.
    let size: usize = fields
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + 4)
        .sum();
    (fields.len() > MAX_FIELDS || size > MAX_FIELDS_BYTES).then(|| {
        let text =
            format!("the header is too large (maximum is {MAX_FIELDS} fields and {MAX_FIELDS_BYTES} bytes)");
        (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, text)
    })
}
