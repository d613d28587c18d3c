//! How long the head of a request may be. The HTTP library has limits of its own above these
//! (`web::connections`), which apply where a request cannot even be parsed.

use poem::http::StatusCode;
use poem::{Endpoint, IntoResponse, Middleware, Request, Response, Result};

use crate::api::failure;

/// The longest path and query together, in bytes: a file path of 4096 bytes takes three times as many when it is
/// encoded.
const URI: usize = 16 << 10;
/// The longest query, in bytes. Paging links repeat it.
const QUERY: usize = 8 << 10;
/// The largest header fields together, in bytes.
const FIELDS: usize = 32 << 10;
/// The most header fields.
const COUNT: usize = 100;

/// Refuses heads that are too large.
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
            return Ok(failure::respond(status, &failure::told(status, &text)));
        }
        self.inner.call(request).await.map(IntoResponse::into_response)
    }
}

fn fault(request: &Request) -> Option<(StatusCode, String)> {
    let uri = request.uri();
    let query = uri.query().map_or(0, str::len);
    if query > QUERY {
        let text =
            format!("the query is too long (maximum is {QUERY} bytes); send the parameters in the body");
        return Some((StatusCode::URI_TOO_LONG, text));
    }
    if uri.path().len() + query > URI {
        return Some((
            StatusCode::URI_TOO_LONG,
            format!("path and query are too long (maximum is {URI} bytes)"),
        ));
    }
    let fields = request.headers();
    // The four bytes are the colon, the space and the line end.
    let size: usize = fields
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + 4)
        .sum();
    (fields.len() > COUNT || size > FIELDS).then(|| {
        let text = format!("the header is too large (maximum is {COUNT} fields and {FIELDS} bytes)");
        (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, text)
    })
}
