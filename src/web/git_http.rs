//! Git's smart HTTP at `/<namespace>/<project>.git/`, with or without `.git`: clone, fetch and push.
//!
//! Bodies are streamed in both directions. Errors are plain text, which the Git client displays.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use domain::code::{fetch_statistics, receive_pack};
use domain::identity::access::ProjectAccess;
use domain::identity::git_access::{self, BasicCredentials};
use domain::kernel::Backend;
use domain::kernel::error::Error;
use domain::spaces::projects;
use git::TransportService;
use percent_encoding::percent_decode_str;
use poem::http::header::{
    ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, EXPIRES, PRAGMA, RETRY_AFTER,
    WWW_AUTHENTICATE,
};
use poem::http::{HeaderName, HeaderValue, Method, StatusCode};
use poem::{Body, Endpoint, IntoResponse, Middleware, Request, Response, Result};

use crate::api::client_address::{address_key, client_ip};
use crate::api::{error_response, request_rate};

/// Middleware that handles Git requests and forwards all others.
pub struct GitHttpMiddleware {
    /// The backend of the services.
    pub backend: Backend,
    /// Maximum size of a pushed pack.
    pub max_push_bytes: u64,
}

impl<E: Endpoint> Middleware<E> for GitHttpMiddleware {
    type Output = GitHttpEndpoint<E>;

    fn transform(&self, inner: E) -> Self::Output {
        GitHttpEndpoint {
            inner,
            backend: self.backend.clone(),
            max_push_bytes: self.max_push_bytes,
        }
    }
}

/// See [`GitHttpMiddleware`].
pub struct GitHttpEndpoint<E> {
    inner: E,
    backend: Backend,
    max_push_bytes: u64,
}

impl<E: Endpoint> Endpoint for GitHttpEndpoint<E> {
    type Output = Response;

    async fn call(&self, request: Request) -> Result<Response> {
        let Some(target) = GitRequest::of(request.uri().path()) else {
            return self.inner.call(request).await.map(IntoResponse::into_response);
        };
        let mut response = match self.answer(&target, request).await {
            Ok(response) => response,
            Err(rejection) => rejection.into_response(),
        };
        let headers = response.headers_mut();
        for (name, value) in [
            (CACHE_CONTROL, "no-cache, max-age=0, must-revalidate"),
            (EXPIRES, "Fri, 01 Jan 1980 00:00:00 GMT"),
            (PRAGMA, "no-cache"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        Ok(response)
    }
}

/// Returns whether a raw path is a Git path.
pub(super) fn is_git_path(path: &str) -> bool {
    GitRequest::of(path).is_some()
}

/// Target of a Git path.
#[derive(Debug, PartialEq, Eq)]
struct GitRequest {
    /// The full path of the project, as sent.
    project: String,
    endpoint: GitEndpoint,
}

#[derive(Debug, PartialEq, Eq)]
enum GitEndpoint {
    /// `info/refs`.
    References,
    /// `git-upload-pack` or `git-receive-pack`.
    Exchange(TransportService),
}

impl GitRequest {
    /// Parses the raw path of a request; `None` if it is not a Git path.
    fn of(path: &str) -> Option<Self> {
        let (repository, endpoint) = match path.strip_suffix("/info/refs") {
            Some(repository) => (repository, GitEndpoint::References),
            None => {
                let (repository, name) = path.rsplit_once('/')?;
                (repository, GitEndpoint::Exchange(TransportService::named(name)?))
            }
        };
        let repository = repository.strip_prefix('/')?;
        let first = repository.split('/').next()?;
        if matches!(first, "api" | "-" | "docs") {
            return None;
        }
        let project = percent_decode_str(repository).decode_utf8().ok()?;
        let project = project.strip_suffix(".git").unwrap_or(&project);
        project.contains('/').then(|| Self {
            project: project.to_owned(),
            endpoint,
        })
    }
}

/// Reason why a request is rejected.
enum GitRejection {
    /// A protocol error with a text.
    Protocol(StatusCode, &'static str),
    /// A wrong method; contains the allowed one.
    Method(&'static str),
    /// A domain error.
    Rule(Error),
}

impl From<Error> for GitRejection {
    fn from(error: Error) -> Self {
        Self::Rule(error)
    }
}

impl From<git::Error> for GitRejection {
    fn from(error: git::Error) -> Self {
        match error {
            git::Error::LimitExceeded(text) => Self::Protocol(StatusCode::PAYLOAD_TOO_LARGE, text),
            error => Self::Rule(error.into()),
        }
    }
}

impl GitRejection {
    fn into_response(self) -> Response {
        let plain = |status: StatusCode, text: &str| {
            Response::builder()
                .status(status)
                .content_type("text/plain; charset=utf-8")
                .body(format!("{text}\n"))
        };
        match self {
            Self::Protocol(status, text) => plain(status, text),
            Self::Method(allowed) => {
                let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "Method not allowed.");
                response
                    .headers_mut()
                    .insert(ALLOW, HeaderValue::from_static(allowed));
                response
            }
            Self::Rule(error) => {
                let rendered = error_response::render(&error);
                let status = rendered.status();
                let mut response = plain(status, &text(&error));
                if let Some(delay) = rendered.headers().get(RETRY_AFTER) {
                    response.headers_mut().insert(RETRY_AFTER, delay.clone());
                }
                if status == StatusCode::UNAUTHORIZED {
                    let challenge = HeaderValue::from_static("Basic realm=\"Holdfast\"");
                    response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
                }
                response
            }
        }
    }
}

/// Returns the text that the Git client displays.
fn text(error: &Error) -> String {
    match error {
        Error::Unauthorized | Error::InvalidToken(_) => {
            "Access denied: sign in with your user name and a token, or your password.".to_owned()
        }
        Error::Forbidden(Some(reason)) => reason.to_string(),
        Error::Forbidden(None) => "You are not allowed to do this.".to_owned(),
        Error::BySetting { setting, error } => format!("{} (setting: {setting})", text(error)),
        Error::NotFound(_) => {
            "The project you were looking for could not be found or you don't have permission to view it."
                .to_owned()
        }
        Error::Internal(cause) => {
            tracing::error!(%cause, "git request failed");
            "The server encountered an internal error.".to_owned()
        }
        other => error_response::plain_text(other),
    }
}

impl<E> GitHttpEndpoint<E> {
    async fn answer(&self, target: &GitRequest, request: Request) -> Result<Response, GitRejection> {
        match target.endpoint {
            GitEndpoint::References => self.references(target, &request).await,
            GitEndpoint::Exchange(service) => self.exchange(target, service, request).await,
        }
    }

    async fn authorize(
        &self,
        target: &GitRequest,
        service: TransportService,
        request: &Request,
    ) -> Result<ProjectAccess, GitRejection> {
        let identified = git_access::identify(&self.backend, credentials(request)?).await;
        request_rate::count(request, identified.as_ref().ok())?;
        let caller = identified?
            .at_ip_address(client_ip(request))
            .at_address(address_key(request));
        request_rate::use_database_share(request, &caller);
        let git_time = request_rate::git_time(request, &self.backend, &caller);
        let caller = caller.with_git_time(git_time.clone());
        let is_new_push = caller.is_signed_in()
            && service == TransportService::ReceivePack
            && target.endpoint == GitEndpoint::References;
        let pusher = is_new_push.then(|| caller.clone());
        let found = git_access::authorize(&self.backend, caller, &target.project, service).await;
        match (found, pusher) {
            (Err(Error::NotFound(_)), Some(pusher)) => {
                let created = projects::create_for_push(&self.backend, &pusher, &target.project).await?;
                // The project exists, so the request is not refused any more.
                git_time.admit();
                Ok(created)
            }
            (found, _) => Ok(found?),
        }
    }

    async fn references(&self, target: &GitRequest, request: &Request) -> Result<Response, GitRejection> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return Err(GitRejection::Method("GET, HEAD"));
        }
        let query = request.uri().query().unwrap_or_default();
        let service = query.split('&').find_map(|pair| pair.strip_prefix("service="));
        let Some(service) = service.and_then(TransportService::named) else {
            let text = "The server supports only Git's smart HTTP protocol; use a newer client.";
            return Err(GitRejection::Protocol(StatusCode::FORBIDDEN, text));
        };
        let access = self.authorize(target, service, request).await?;
        let repository = receive_pack::repository(&self.backend, &access);
        let stream = repository.advertise(service, protocol(request)).await?;
        Ok(streamed(service, "advertisement", stream))
    }

    async fn exchange(
        &self,
        target: &GitRequest,
        service: TransportService,
        mut request: Request,
    ) -> Result<Response, GitRejection> {
        if request.method() != Method::POST {
            return Err(GitRejection::Method("POST"));
        }
        let access = self.authorize(target, service, &request).await?;
        let content_type = header(&request, &CONTENT_TYPE).unwrap_or_default();
        if content_type != format!("application/x-{}-request", service.name()) {
            let text = "The Content-Type does not match the Git service.";
            return Err(GitRejection::Protocol(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
        }
        let gzip = match header(&request, &CONTENT_ENCODING).unwrap_or("identity") {
            "gzip" | "x-gzip" => true,
            "identity" => false,
            _ => {
                let text = "The Content-Encoding is not supported; use gzip or none.";
                return Err(GitRejection::Protocol(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
            }
        };
        let body = request.take_body().into_async_read();
        let protocol = protocol(&request);
        let repository = receive_pack::repository(&self.backend, &access);
        Ok(match service {
            TransportService::UploadPack => {
                let stream = repository.upload_pack(body, gzip, protocol).await?;
                let stream = fetch_statistics::counted(&self.backend, access.project.id, stream);
                streamed(service, "result", stream)
            }
            TransportService::ReceivePack => {
                let push = repository.open_push(body, gzip).await?;
                let limit = Some(self.max_push_bytes);
                let stream = receive_pack::receive(&self.backend, &access, push, limit, protocol).await?;
                streamed(service, "result", stream)
            }
        })
    }
}

fn streamed<S>(service: TransportService, kind: &str, stream: S) -> Response
where
    S: futures_util::Stream<Item = std::io::Result<bytes::Bytes>> + Send + 'static,
{
    Response::builder()
        .content_type(format!("application/x-{}-{kind}", service.name()))
        .body(Body::from_bytes_stream(stream))
}

fn header<'a>(request: &'a Request, name: &HeaderName) -> Option<&'a str> {
    request.headers().get(name)?.to_str().ok()
}

/// Returns the protocol version requested by the client.
fn protocol(request: &Request) -> Option<&str> {
    header(request, &HeaderName::from_static("git-protocol"))
}

/// Returns the credentials of a request; other schemes than Basic are rejected.
pub(super) fn credentials(request: &Request) -> Result<Option<BasicCredentials>, Error> {
    let Some(value) = request.headers().get(AUTHORIZATION) else {
        return Ok(None);
    };
    let read = || {
        let (scheme, encoded) = value.to_str().ok()?.split_once(' ')?;
        let decoded = STANDARD.decode(encoded.trim()).ok()?;
        let decoded = String::from_utf8(decoded).ok()?;
        let (name, password) = decoded.split_once(':')?;
        scheme.eq_ignore_ascii_case("basic").then(|| BasicCredentials {
            name: name.to_owned(),
            password: password.to_owned(),
            address: address_key(request),
            ip_address: client_ip(request),
        })
    };
    read().map(Some).ok_or(Error::Unauthorized)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(project: &str, endpoint: GitEndpoint) -> Option<GitRequest> {
        Some(GitRequest {
            project: project.to_owned(),
            endpoint,
        })
    }

    #[test]
    fn busy_server_returns_503_with_retry_after() {
        let response = GitRejection::from(git::Error::Busy("too many transfers")).into_response();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(response.headers().contains_key(RETRY_AFTER));
    }

    #[test]
    fn git_path_accepts_project_with_or_without_suffix() {
        assert_eq!(
            GitRequest::of("/g/p.git/info/refs"),
            target("g/p", GitEndpoint::References)
        );
        assert_eq!(
            GitRequest::of("/a/b/c/git-upload-pack"),
            target("a/b/c", GitEndpoint::Exchange(TransportService::UploadPack))
        );
        assert_eq!(
            GitRequest::of("/g/%C3%A4.git/git-receive-pack"),
            target("g/ä", GitEndpoint::Exchange(TransportService::ReceivePack))
        );
    }

    #[test]
    fn other_paths_are_not_git_requests() {
        for path in [
            "/",
            "/info/refs",
            "/p.git/info/refs",
            "/api/v4/projects/info/refs",
            "/-/x/info/refs",
            "/g/p.git/HEAD",
            "/g/p.git/git-shell",
            "/g/%FF/info/refs",
        ] {
            assert_eq!(GitRequest::of(path), None, "{path}");
        }
    }
}
