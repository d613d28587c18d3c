//! Headers of every response, and their optional copies under the names of the reference service.

use poem::http::header::{STRICT_TRANSPORT_SECURITY, VARY};
use poem::http::{HeaderName, HeaderValue};
use poem::{Endpoint, IntoResponse, Middleware, Request, Response, Result};

/// Middleware that sets the headers.
pub struct HeaderMiddleware {
    /// Whether to repeat `X-Service-*` as `X-Gitlab-*`.
    pub compat: bool,
    /// Whether the public URL of the server starts with `https://`.
    pub is_https: bool,
}

impl<E: Endpoint> Middleware<E> for HeaderMiddleware {
    type Output = HeadersEndpoint<E>;

    fn transform(&self, inner: E) -> Self::Output {
        HeadersEndpoint {
            inner,
            compat: self.compat,
            is_https: self.is_https,
        }
    }
}

/// See [`HeaderMiddleware`].
pub struct HeadersEndpoint<E> {
    inner: E,
    compat: bool,
    is_https: bool,
}

/// Browsers that have seen this header use only HTTPS for a year. Other hosts of the domain are not affected.
const TRANSPORT_SECURITY: HeaderValue = HeaderValue::from_static("max-age=31536000");

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
        // A response with a `Vary` of its own can have CORS headers too.
        if !headers.get_all(VARY).iter().any(|value| value == "Origin") {
            headers.append(VARY, HeaderValue::from_static("Origin"));
        }
        if self.is_https {
            headers
                .entry(STRICT_TRANSPORT_SECURITY)
                .or_insert(TRANSPORT_SECURITY);
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
