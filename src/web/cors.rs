//! Cross-origin requests of web pages to the API (the CORS protocol of the Fetch standard).
//!
//! Pages of other origins authenticate with tokens. Their requests never contain the session cookie, because no response
//! allows credentials.

use poem::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN,
};
use poem::http::{HeaderValue, Method, StatusCode};
use poem::{Endpoint, IntoResponse, Middleware, Request, Response, Result};

use crate::config::Origins;

/// Methods of the operations.
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE");
/// Headers that operations read.
const REQUEST_HEADERS: HeaderValue = HeaderValue::from_static(
    "Accept, Authorization, Content-Type, Deploy-Token, If-None-Match, If-Range, If-Unmodified-Since, Job-Token, \
     Private-Token, Range, Sudo, Unleash-Appname, Unleash-Instanceid",
);
/// Headers that pages can read: those of paging, rate limits, caching, files and errors, the URL of a created resource,
/// and the request ID.
const RESPONSE_HEADERS: HeaderValue = HeaderValue::from_static(
    "Accept-Ranges, Allow, Content-Disposition, Content-Range, ETag, Link, Links, Location, RateLimit-Limit, \
     RateLimit-Remaining, RateLimit-Reset, Retry-After, WWW-Authenticate, X-Checksum-MD5, X-Checksum-SHA1, \
     X-Checksum-SHA256, X-Holdfast-Fault, X-Next-Page, X-Page, X-Per-Page, X-Prev-Page, X-Request-Id, X-Total, \
     X-Total-Pages, X-Service-Blob-Id, X-Service-Commit-Id, X-Service-Content-Sha256, X-Service-Encoding, \
     X-Service-File-Name, X-Service-File-Path, X-Service-Last-Commit-Id, X-Service-Ref, X-Service-Size",
);
/// The copies of `X-Service-*` under the names of the reference service.
const COMPATIBLE_HEADERS: HeaderValue = HeaderValue::from_static(
    "X-Gitlab-Blob-Id, X-Gitlab-Commit-Id, X-Gitlab-Content-Sha256, X-Gitlab-Encoding, X-Gitlab-File-Name, \
     X-Gitlab-File-Path, X-Gitlab-Last-Commit-Id, X-Gitlab-Ref, X-Gitlab-Size",
);
/// Time in seconds for which browsers cache the response to a preflight request; most browsers limit it to two hours.
const MAX_AGE: HeaderValue = HeaderValue::from_static("7200");

/// Middleware that answers preflight requests and adds the headers that browsers require.
pub struct CorsMiddleware {
    /// Origins of web pages that can call the API.
    pub origins: Origins,
    /// Whether responses have the copies of `X-Service-*`.
    pub compat: bool,
}

impl<E: Endpoint> Middleware<E> for CorsMiddleware {
    type Output = CorsEndpoint<E>;

    fn transform(&self, inner: E) -> Self::Output {
        CorsEndpoint {
            inner,
            origins: self.origins.clone(),
            compat: self.compat,
        }
    }
}

/// See [`CorsMiddleware`].
pub struct CorsEndpoint<E> {
    inner: E,
    origins: Origins,
    compat: bool,
}

impl<E: Endpoint> Endpoint for CorsEndpoint<E> {
    type Output = Response;

    async fn call(&self, request: Request) -> Result<Response> {
        let Some(origin) = self.allowed_origin(&request) else {
            return self.inner.call(request).await.map(IntoResponse::into_response);
        };
        let is_preflight = request.method() == Method::OPTIONS
            && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        let mut response = match is_preflight {
            true => preflight_response(),
            false => self.inner.call(request).await?.into_response(),
        };
        let headers = response.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, RESPONSE_HEADERS);
        if self.compat {
            headers.append(ACCESS_CONTROL_EXPOSE_HEADERS, COMPATIBLE_HEADERS);
        }
        Ok(response)
    }
}

impl<E> CorsEndpoint<E> {
    /// Returns the origin of a request to the API, if its pages can call the API.
    fn allowed_origin(&self, request: &Request) -> Option<HeaderValue> {
        // The server accepts one more slash at the beginning.
        let path = request.uri().path();
        let is_api = path.starts_with("/api/") || path.starts_with("//api/");
        let origin = request.headers().get(ORIGIN).filter(|_| is_api)?;
        let is_allowed = origin.to_str().is_ok_and(|origin| self.origins.contain(origin));
        is_allowed.then(|| origin.clone())
    }
}

fn preflight_response() -> Response {
    Response::builder()
        .status(StatusCode::NO_CONTENT)
        .header(ACCESS_CONTROL_ALLOW_METHODS, METHODS)
        .header(ACCESS_CONTROL_ALLOW_HEADERS, REQUEST_HEADERS)
        .header(ACCESS_CONTROL_MAX_AGE, MAX_AGE)
        .finish()
}
