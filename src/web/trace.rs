//! Request ID, access log and metrics of every request.

use std::time::Instant;

use poem::http::{HeaderValue, Method};
use poem::{Endpoint, IntoResponse, Middleware, Request, Response, Result};
use tracing::Instrument;

use crate::api::access_record::AccessRecord;
use crate::api::client_address;
use crate::web::access_log::{self, AccessLine};

/// Middleware that traces requests.
pub struct TraceMiddleware;

impl<E: Endpoint> Middleware<E> for TraceMiddleware {
    type Output = TraceEndpoint<E>;

    fn transform(&self, inner: E) -> Self::Output {
        TraceEndpoint { inner }
    }
}

/// See [`TraceMiddleware`].
pub struct TraceEndpoint<E> {
    inner: E,
}

/// Header that a proxy may set and every response contains.
pub(super) const REQUEST_ID: &str = "x-request-id";

impl<E: Endpoint> Endpoint for TraceEndpoint<E> {
    type Output = Response;

    async fn call(&self, mut request: Request) -> Result<Response> {
        let given = request
            .headers()
            .get(REQUEST_ID)
            .and_then(|value| value.to_str().ok());
        let id = match given.filter(|id| is_id(id)) {
            Some(id) => id.to_owned(),
            None => new_id(),
        };
        let method = request.method().clone();
        let span = tracing::info_span!("request", request_id = id);
        let started = Instant::now();
        let record = AccessRecord::default();
        // Copied only if it is logged, because each request would pay for it.
        let line = access_log::is_enabled().then(|| AccessLine {
            started,
            method: method.clone(),
            path: request.uri().path().to_owned(),
            address: client_address::client_ip(&request),
            request_id: id.clone(),
            record: record.clone(),
            is_written: false,
        });
        request.set_data(record);
        let response = self.inner.call(request).instrument(span).await?;
        let mut response = response.into_response();
        let status = response.status().as_u16().to_string();
        metrics::counter!("holdfast_requests_total", "method" => known(&method), "status" => status)
            .increment(1);
        metrics::histogram!("holdfast_request_seconds").record(started.elapsed().as_secs_f64());
        if let Ok(id) = HeaderValue::from_str(&id) {
            response.headers_mut().insert(REQUEST_ID, id);
        }
        if let Ok(runtime) = HeaderValue::from_str(&format!("{:.6}", started.elapsed().as_secs_f64())) {
            response.headers_mut().insert("x-runtime", runtime);
        }
        Ok(match line {
            Some(line) => line.write_after(response),
            None => response,
        })
    }
}

/// Generates a request ID.
pub(super) fn new_id() -> String {
    hex::encode(rand::random::<[u8; 16]>())
}

/// Returns the method for metrics. Unknown ones share a label, because clients may send any number of them.
fn known(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}

/// Returns whether an external ID is safe to log.
fn is_id(text: &str) -> bool {
    (1..=128).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}
