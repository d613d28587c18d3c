//! Limits of requests per minute and of received bytes, and the headers of the former in every response.
//!
//! An endpoint counts the request when it has identified the caller (`api::request_rate`). All other requests are
//! counted for the address of the client. The headers are added outside of the response cache.

use std::time::SystemTime;

use domain::kernel::Backend;
use domain::kernel::budgets::RateState;
use poem::http::{HeaderName, HeaderValue};
use poem::{Endpoint, IntoResponse, Middleware, Request, Response, Result};
use storage::database;

use crate::api::error_response;
use crate::api::request_rate::{RequestRate, seconds};
use crate::observability::table::REQUEST_DATABASE_SECONDS;
use crate::web::docs::is_document;

/// Maximum number of requests within a minute.
const LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
/// Number of requests that the client can send now.
const REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
/// Unix time at which the client can send as many requests as the limit.
const RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

/// Middleware that limits requests per minute.
pub struct RateLimitMiddleware {
    /// The backend of the services.
    pub backend: Backend,
}

impl<E: Endpoint> Middleware<E> for RateLimitMiddleware {
    type Output = RateLimitEndpoint<E>;

    fn transform(&self, inner: E) -> Self::Output {
        RateLimitEndpoint {
            inner,
            backend: self.backend.clone(),
        }
    }
}

/// See [`RateLimitMiddleware`].
pub struct RateLimitEndpoint<E> {
    inner: E,
    backend: Backend,
}

impl<E: Endpoint> Endpoint for RateLimitEndpoint<E> {
    type Output = Response;

    async fn call(&self, mut request: Request) -> Result<Response> {
        let counting = counting(request.uri().path());
        if counting == Counting::Exempt {
            return self.inner.call(request).await.map(IntoResponse::into_response);
        }
        let rate = RequestRate::new(&self.backend, &mut request);
        if counting == Counting::ByAddress
            && let Err(error) = rate.count_address()
        {
            let mut response = error_response::render(&error);
            add_headers(&mut response, rate.state());
            return Ok(response);
        }
        request.set_data(rate.clone());
        let limit = self.backend.budgets.database_time;
        let call = async {
            if counting == Counting::ByAddress {
                rate.use_database_share_of_address();
            }
            self.inner.call(request).await
        };
        // Boxed, because each layer around a future copies it, and the futures of the routes are large.
        let (result, elapsed) = database::measure(limit, Box::pin(call)).await;
        if !elapsed.is_zero() {
            metrics::histogram!(REQUEST_DATABASE_SECONDS.name).record(elapsed.as_secs_f64());
        }
        let mut response = result?.into_response();
        // A request that was refused before its caller was identified is counted, too. Its response stays: it costs no
        // more than a refusal.
        let _ = rate.count_address();
        add_headers(&mut response, rate.state());
        Ok(response)
    }
}

/// How a request is counted.
#[derive(Debug, PartialEq, Eq)]
enum Counting {
    /// Not at all.
    Exempt,
    /// For the address of the client, before it is processed.
    ByAddress,
    /// By the endpoint, once it has identified the caller.
    ByCaller,
}

/// Returns how a request to a path is counted. Probes and metrics are exempt, because monitoring must work when clients
/// send too many requests.
fn counting(path: &str) -> Counting {
    let below = |root: &str| {
        let rest = path.strip_prefix(root);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    match path {
        "/-/health" | "/-/liveness" | "/-/readiness" | "/-/metrics" => Counting::Exempt,
        "/-/session" | "/users/sign_in" | "/users/sign_in/code" | "/users/sign_out" => Counting::ByAddress,
        _ if is_document(path) => Counting::ByAddress,
        "/" => Counting::ByAddress,
        _ if below("/docs") || below("/oauth") || below("/.well-known") => Counting::ByAddress,
        _ if below("/users/two_factor") => Counting::ByAddress,
        _ => Counting::ByCaller,
    }
}

fn add_headers(response: &mut Response, state: Option<RateState>) {
    let Some(state) = state else { return };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let reset = seconds(now.unwrap_or_default() + state.full_in);
    let headers = response.headers_mut();
    headers.insert(LIMIT, HeaderValue::from(state.limit));
    headers.insert(REMAINING, HeaderValue::from(state.remaining));
    headers.insert(RESET, HeaderValue::from(reset));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_are_exempt_and_pages_count_by_address() {
        for (path, expected) in [
            ("/-/liveness", Counting::Exempt),
            ("/-/metrics", Counting::Exempt),
            ("/-/session", Counting::ByAddress),
            ("/-/other", Counting::ByCaller),
            ("/", Counting::ByAddress),
            ("/docs", Counting::ByAddress),
            ("/docs/index.css", Counting::ByAddress),
            ("/documents/a.git/info/refs", Counting::ByCaller),
            ("/oauth/token", Counting::ByAddress),
            ("/users/sign_in", Counting::ByAddress),
            ("/users/sign_in/code", Counting::ByAddress),
            ("/users/two_factor", Counting::ByAddress),
            ("/users/two_factor/disable", Counting::ByAddress),
            ("/users/a.git/info/refs", Counting::ByCaller),
            ("/api/v4/projects", Counting::ByCaller),
            ("/api/v4/openapi.json", Counting::ByAddress),
            ("/api/v4/openapi-3.1.json", Counting::ByAddress),
            ("/v2/", Counting::ByCaller),
            ("/jwt/auth", Counting::ByCaller),
        ] {
            assert_eq!(counting(path), expected, "{path}");
        }
    }
}
