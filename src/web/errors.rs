//! Converts failures outside of handlers (no route, wrong method, panic, timeout) to JSON responses.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use domain::kernel::error::Error;
use futures_util::FutureExt;
use poem::error::{MethodNotAllowedError, NotFoundError};
use poem::http::{Method, StatusCode};
use poem::{Endpoint, IntoResponse, Middleware, Request, Response, Result};

use crate::api::error_response;
use crate::api::routes::AllowedMethods;
use crate::web::docs::is_document;
use crate::web::oauth::METADATA_PATH;
use crate::web::{extra_slashes, git_http, packages, registry};
use contract::operation::ErrorFormat;
use contract::table::operations;

/// Maximum number of segments in the path of a project or group.
const MAX_PATH_DEPTH: usize = 21;

/// Middleware that converts failures to responses.
pub struct ErrorMiddleware {
    /// Maximum time of a request. Git transfers, image blobs and uploads of packages have separate limits.
    pub time_limit: Duration,
}

impl<E: Endpoint> Middleware<E> for ErrorMiddleware {
    type Output = ErrorsEndpoint<E>;

    fn transform(&self, inner: E) -> Self::Output {
        ErrorsEndpoint {
            inner,
            time_limit: self.time_limit,
        }
    }
}

/// See [`ErrorMiddleware`].
pub struct ErrorsEndpoint<E> {
    inner: E,
    time_limit: Duration,
}

impl<E: Endpoint> Endpoint for ErrorsEndpoint<E> {
    type Output = Response;

    async fn call(&self, request: Request) -> Result<Response> {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        if path.starts_with("/api/v3/") {
            let text = "API V3 is no longer supported. Use API V4 instead.";
            let body = serde_json::json!({ "message": text, "error": text });
            return Ok(error_response::json_response(StatusCode::GONE, &body));
        }
        // The future of a route is large, and each middleware would copy it.
        let call = AssertUnwindSafe(Box::pin(self.inner.call(request))).catch_unwind();
        let is_unlimited = git_http::is_git_path(&path)
            || registry::accepts_large_body(&path)
            || packages::accepts_large_body(&method, &path);
        let outcome = if is_unlimited {
            call.await
        } else {
            match tokio::time::timeout(self.time_limit, call).await {
                Ok(outcome) => outcome,
                Err(_) => return Ok(error_response::render(&Error::TimedOut)),
            }
        };
        Ok(match outcome {
            Ok(Ok(output)) => output.into_response(),
            Ok(Err(error)) => error_response(&error, &method, &path),
            Err(_) => error_response::render(&Error::internal("handler panicked")),
        })
    }
}

fn error_response(error: &poem::Error, method: &Method, path: &str) -> Response {
    let trimmed = extra_slashes::without_extra_slash(path);
    // Middleware may have changed the path before its operations were found.
    let allowed = match error.data::<AllowedMethods>() {
        Some(AllowedMethods(methods)) => with_head(methods.clone()),
        None => allowed(trimmed.as_deref().unwrap_or(path)),
    };
    let format = error_format(path);
    if error.is::<MethodNotAllowedError>() || (error.is::<NotFoundError>() && !allowed.is_empty()) {
        tracing::debug!(%method, path, "rejected method");
        return error_response::routing_error(format, StatusCode::METHOD_NOT_ALLOWED, &allowed.join(", "));
    }
    match error.status() {
        StatusCode::NOT_FOUND if has_unencoded_slash(path) => error_response::unencoded_path_error(),
        StatusCode::NOT_FOUND => error_response::routing_error(format, StatusCode::NOT_FOUND, ""),
        status if status.is_client_error() => {
            error_response::json_response(status, &error_response::error_body(status, ""))
        }
        _ => {
            tracing::error!(%error, path, "request failed outside a handler");
            error_response::render(&Error::internal(error.to_string()))
        }
    }
}

/// Returns the format of errors below a raw path without an operation.
fn error_format(path: &str) -> ErrorFormat {
    match path.strip_prefix("/api/scim") {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => ErrorFormat::Scim,
        _ => ErrorFormat::Plain,
    }
}

/// Returns the contract's methods for a raw path.
fn allowed(path: &str) -> Vec<&'static str> {
    let methods: Vec<&'static str> = operations()
        .iter()
        .filter(|operation| matches(operation.path, path))
        .map(|operation| operation.method)
        .collect();
    match methods.is_empty() {
        true => allowed_of_page(path).to_vec(),
        false => with_head(methods),
    }
}

/// Returns sorted methods. `HEAD` is allowed if `GET` is.
fn with_head(mut methods: Vec<&'static str>) -> Vec<&'static str> {
    if methods.contains(&"GET") {
        methods.push("HEAD");
    }
    methods.sort_unstable();
    methods.dedup();
    methods
}

/// Returns whether a path without an operation would have one if some slashes of the project or group were encoded.
fn has_unencoded_slash(path: &str) -> bool {
    let kinds = ["/api/v4/projects/", "/api/v4/groups/"];
    let found = kinds
        .iter()
        .find_map(|kind| Some((*kind, path.strip_prefix(kind)?)));
    let Some((kind, rest)) = found else {
        return false;
    };
    let first = rest.split('/').next().unwrap_or_default();
    let is_id = first.bytes().all(|byte| byte.is_ascii_digit());
    if is_id || first.contains('%') || !rest.contains('/') {
        return false;
    }
    let ends = rest.match_indices('/').map(|(end, _)| end).skip(1);
    let mut encoded = ends
        .chain([rest.len()])
        .take(MAX_PATH_DEPTH)
        .filter_map(|end| Some(format!("{kind}x{}", rest.get(end..)?)));
    encoded.any(|path| {
        operations()
            .iter()
            .any(|operation| matches(operation.path, &path))
    })
}

/// Returns the methods of known pages outside the contract.
fn allowed_of_page(path: &str) -> &'static [&'static str] {
    match path {
        "/users/sign_in" | "/users/sign_in/code" | "/users/two_factor" | "/oauth/authorize" => {
            &["GET", "HEAD", "POST"]
        }
        "/users/sign_out"
        | "/users/two_factor/confirm"
        | "/users/two_factor/recovery_codes"
        | "/users/two_factor/disable"
        | "/oauth/token"
        | "/oauth/revoke"
        | "/oauth/introspect" => &["POST"],
        METADATA_PATH | "/oauth/token/info" => &["GET", "HEAD"],
        "/" | "/-/session" | "/-/health" | "/-/liveness" | "/-/readiness" | "/-/metrics" => &["GET", "HEAD"],
        _ if is_document(path) || path == "/docs" || path.starts_with("/docs/") => &["GET", "HEAD"],
        _ => &[],
    }
}

/// Returns whether a raw path matches a template segment by segment.
fn matches(template: &str, path: &str) -> bool {
    let mut sent = path.split('/');
    let fits = template
        .split('/')
        .all(|pattern| match (pattern.split_once('{'), sent.next()) {
            (Some((prefix, _)), Some(segment)) => segment.len() > prefix.len() && segment.starts_with(prefix),
            (None, Some(segment)) => pattern == segment,
            (_, None) => false,
        });
    fits && sent.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unencoded_slashes_of_projects_and_groups_are_found() {
        for (path, expected) in [
            ("/api/v4/projects/group/project", true),
            ("/api/v4/projects/group/sub/project/labels", true),
            ("/api/v4/groups/group/sub/labels/7", true),
            ("/api/v4/projects/7/nothing", false),
            ("/api/v4/projects/group%2Fproject/nothing", false),
            ("/api/v4/projects/group", false),
            ("/api/v4/nothing/group/project", false),
            ("/api/v4/projects/", false),
        ] {
            assert_eq!(has_unencoded_slash(path), expected, "{path}");
        }
    }

    #[test]
    fn path_templates_match_segment_by_segment() {
        let template = "/api/v4/projects/{id}/repository/files/{file_path}";
        assert!(matches(
            template,
            "/api/v4/projects/a%2Fb/repository/files/src%2Fx.rs"
        ));
        assert!(!matches(template, "/api/v4/projects/a/b/repository/files/x"));
        assert!(!matches(template, "/api/v4/projects/a/repository/files/"));
        assert!(!matches(template, "/api/v4/projects/a/repository/files/x/y"));
    }

    #[test]
    fn paths_of_scim_have_scim_errors() {
        for (path, format) in [
            ("/api/scim", ErrorFormat::Scim),
            ("/api/scim/v2/nothing", ErrorFormat::Scim),
            ("/api/scims", ErrorFormat::Plain),
            ("/api/v4/nothing", ErrorFormat::Plain),
        ] {
            assert_eq!(error_format(path), format, "{path}");
        }
    }

    #[test]
    fn known_path_lists_allowed_methods_and_head() {
        assert_eq!(allowed("/api/v4/version"), ["GET", "HEAD"]);
        assert_eq!(allowed("/api/v4/nothing"), Vec::<&str>::new());
        assert_eq!(allowed("/users/sign_in"), ["GET", "HEAD", "POST"]);
        assert_eq!(allowed("/docs/"), ["GET", "HEAD"]);
        assert_eq!(allowed("/oauth/token"), ["POST"]);
        assert_eq!(allowed(METADATA_PATH), ["GET", "HEAD"]);
    }
}
