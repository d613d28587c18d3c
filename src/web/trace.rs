//! Request ID, access log and metrics of every request.

use std::time::Instant;

use poem::http::{HeaderValue, Method};
use poem::{Endpoint, IntoResponse, Middleware, Request, Response, Result};
use tracing::Instrument;

use crate::api::access_record::AccessRecord;
use crate::api::client_address;
use crate::observability::requests::RequestMeasurement;
use crate::observability::traces::{self, TraceParent};
use crate::web::access_log::{self, AccessLine};
use crate::web::endpoint_kind::endpoint_kind;

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
        let kind = endpoint_kind(request.uri().path());
        let operation = {
            let record = record.clone();
            move || record.operation().map_or(kind, |operation| operation.id)
        };
        let measurement = RequestMeasurement::start(known(&method), operation);
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
        let traced = record.clone();
        request.set_data(record);
        // Innermost, so that it is the current span of the work.
        let trace = traces::request_span(known(&method), &id, || trace_parent(&request));
        let response = self
            .inner
            .call(request)
            .instrument(trace.clone())
            .instrument(span)
            .await;
        let mut response = match response {
            Ok(response) => response.into_response(),
            Err(error) => {
                measurement.finish(error.status().as_u16());
                return Err(error);
            }
        };
        let status = response.status().as_u16();
        measurement.finish(status);
        let operation = traced.operation();
        let name = operation.map_or(kind, |operation| operation.id);
        traces::finish_request(&trace, name, operation.map(|operation| operation.path), status);
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

/// Returns the trace context that the client sent.
fn trace_parent(request: &Request) -> TraceParent<'_> {
    let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
    TraceParent {
        parent: header("traceparent"),
        state: header("tracestate"),
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
