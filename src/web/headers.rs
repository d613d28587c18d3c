//! Headers of every response, and their optional copies under the names of the reference service.

use poem::http::{HeaderName, HeaderValue};
use poem::{Endpoint, IntoResponse, Middleware, Request, Response, Result};

/// Middleware that sets the headers.
pub struct HeaderMiddleware {
    /// Whether to repeat `X-Service-*` as `X-Gitlab-*`.
    pub compat: bool,
}

impl<E: Endpoint> Middleware<E> for HeaderMiddleware {
    type Output = HeadersEndpoint<E>;

    fn transform(&self, inner: E) -> Self::Output {
        HeadersEndpoint {
            inner,
            compat: self.compat,
        }
    }
}

/// See [`HeaderMiddleware`].
pub struct HeadersEndpoint<E> {
    inner: E,
    compat: bool,
}

/// Headers of every response.
pub(super) const SECURITY_HEADERS: [(&str, &str); 3] = [
    ("x-frame-options", "SAMEORIGIN"),
    ("x-content-type-options", "nosniff"),
    ("vary", "Origin"),
];

impl<E: Endpoint> Endpoint for HeadersEndpoint<E> {
    type Output = Response;

    async fn call(&self, request: Request) -> Result<Response> {
        let mut response = self.inner.call(request).await?.into_response();
        let headers = response.headers_mut();
        for (name, value) in SECURITY_HEADERS {
            headers
                .entry(HeaderName::from_static(name))
                .or_insert(HeaderValue::from_static(value));
        }
        if self.compat {
            let repeated: Vec<(HeaderName, HeaderValue)> = headers
                .iter()
                .filter_map(|(name, value)| {
                    let name = format!("x-gitlab-{}", name.as_str().strip_prefix("x-service-")?);
                    Some((name.parse().ok()?, value.clone()))
                })
                .collect();
            headers.extend(repeated);
        }
        Ok(response)
    }
}
