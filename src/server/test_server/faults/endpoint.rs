//! Middleware that injects faults.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime};

use contract::operation::Operation;
use contract::table::operations;
use domain::kernel::error::Error;
use poem::http::header::RETRY_AFTER;
use poem::http::{HeaderName, HeaderValue, StatusCode};
use poem::{Endpoint, IntoResponse, Middleware, Request, Response, Result};

use super::{Faults, Injection, Outcome};
use crate::api::error_response::{render, render_for, render_status};
use crate::api::route_tree::RouteTree;
use crate::web::connections::CloseConnection;

/// Header of injected errors, by which a test distinguishes them from errors of the server.
const INJECTED: HeaderName = HeaderName::from_static("x-holdfast-fault");
/// Maximum number of requests within a minute that a response with an exceeded rate limit reports.
const LIMIT: u32 = 60;

/// Middleware that injects the faults of a test server.
pub(in super::super) struct FaultMiddleware {
    /// The rules.
    pub(in super::super) faults: Arc<Faults>,
}

impl<E: Endpoint> Middleware<E> for FaultMiddleware {
    type Output = FaultEndpoint<E>;

    fn transform(&self, inner: E) -> Self::Output {
        FaultEndpoint {
            inner,
            faults: Arc::clone(&self.faults),
        }
    }
}

/// See [`FaultMiddleware`].
pub(in super::super) struct FaultEndpoint<E> {
    inner: E,
    faults: Arc<Faults>,
}

impl<E: Endpoint> Endpoint for FaultEndpoint<E> {
    type Output = Response;

    async fn call(&self, request: Request) -> Result<Response> {
        let fault = self
            .faults
            .inject(request.method().as_str(), request.uri().path());
        if let Some(delay) = fault.and_then(|fault| fault.delay) {
            tokio::time::sleep(delay).await;
        }
        match fault.and_then(|fault| response(&fault, &request)) {
            Some(response) => Ok(response),
            None => self.inner.call(request).await.map(IntoResponse::into_response),
        }
    }
}

/// The operations by the path of a request.
static OPERATIONS: LazyLock<RouteTree<&'static Operation>> = LazyLock::new(|| {
    let mut tree = RouteTree::default();
    for operation in operations() {
        tree.insert(operation.path, operation.rest, operation);
    }
    tree
});

/// Returns the operation of a request, or another one with its path, because operations with the same path have the same
/// form of errors.
fn operation_of(request: &Request) -> Option<&'static Operation> {
    let found = OPERATIONS.find(request.uri().path());
    let exact = found
        .iter()
        .find(|operation| operation.method == request.method().as_str());
    exact.or(found.first()).copied()
}

/// Returns the response of a fault; `None` if the server responds.
fn response(fault: &Injection, request: &Request) -> Option<Response> {
    let outcome = fault.outcome?;
    let mut response = match outcome {
        Outcome::Status(429) | Outcome::RateLimit => {
            let error = Error::RateLimited(u64::from(fault.retry_after));
            match operation_of(request) {
                Some(operation) => render_for(operation, request.headers(), &error),
                None => render(&error),
            }
        }
        Outcome::Status(status) => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            render_status(operation_of(request), request.headers(), status)
        }
        Outcome::Close => {
            let mut response = Response::from(StatusCode::BAD_GATEWAY);
            response.extensions_mut().insert(CloseConnection);
            response
        }
    };
    let headers = response.headers_mut();
    headers.insert(INJECTED, HeaderValue::from_static("true"));
    if outcome == Outcome::Status(503) {
        headers.insert(RETRY_AFTER, HeaderValue::from(fault.retry_after));
    }
    if outcome == Outcome::RateLimit {
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let reset = now + Duration::from_secs(u64::from(fault.retry_after));
        for (name, value) in [
            ("ratelimit-limit", u64::from(LIMIT)),
            ("ratelimit-remaining", 0),
            ("ratelimit-reset", reset.as_secs()),
        ] {
            headers.insert(HeaderName::from_static(name), HeaderValue::from(value));
        }
    }
    Some(response)
}
