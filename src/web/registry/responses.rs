//! Responses of the registry: errors in the protocol's format, challenges, and common headers.

use domain::kernel::error::Error;
use domain::registry::tokens::{TokenChallenge, TokenRejection};
use domain::registry::{Digest, ImageName, RegistryActions, RegistryError, RegistryErrorCode};
use poem::http::header::{ALLOW, CONTENT_LENGTH, LOCATION, RANGE, RETRY_AFTER, WWW_AUTHENTICATE};
use poem::http::{HeaderName, HeaderValue, StatusCode};
use poem::{Body, Response};
use serde_json::{Value, json};

use crate::api::error_response;

/// Name of the service in requests for tokens.
pub const SERVICE: &str = "container_registry";
/// Digest of the content of a response.
pub const CONTENT_DIGEST: HeaderName = HeaderName::from_static("docker-content-digest");
/// Protocol version, in every response.
const VERSION: HeaderName = HeaderName::from_static("docker-distribution-api-version");
/// ID of the upload.
const UPLOAD: HeaderName = HeaderName::from_static("docker-upload-uuid");
/// Minimum size of a chunk.
const MIN_CHUNK_HEADER: HeaderName = HeaderName::from_static("oci-chunk-min-length");

/// Returns the protocol's name of an error code, and its status.
fn code_and_status(code: RegistryErrorCode) -> (&'static str, StatusCode) {
    match code {
        RegistryErrorCode::BlobUnknown => ("BLOB_UNKNOWN", StatusCode::NOT_FOUND),
        RegistryErrorCode::BlobUploadInvalid => ("BLOB_UPLOAD_INVALID", StatusCode::BAD_REQUEST),
        RegistryErrorCode::BlobUploadUnknown => ("BLOB_UPLOAD_UNKNOWN", StatusCode::NOT_FOUND),
        RegistryErrorCode::DigestInvalid => ("DIGEST_INVALID", StatusCode::BAD_REQUEST),
        RegistryErrorCode::ManifestBlobUnknown => ("MANIFEST_BLOB_UNKNOWN", StatusCode::BAD_REQUEST),
        RegistryErrorCode::ManifestInvalid => ("MANIFEST_INVALID", StatusCode::BAD_REQUEST),
        RegistryErrorCode::ManifestUnknown => ("MANIFEST_UNKNOWN", StatusCode::NOT_FOUND),
        RegistryErrorCode::NameInvalid => ("NAME_INVALID", StatusCode::BAD_REQUEST),
        RegistryErrorCode::NameUnknown => ("NAME_UNKNOWN", StatusCode::NOT_FOUND),
        RegistryErrorCode::PaginationNumberInvalid => ("PAGINATION_NUMBER_INVALID", StatusCode::BAD_REQUEST),
        RegistryErrorCode::SizeInvalid => ("SIZE_INVALID", StatusCode::PAYLOAD_TOO_LARGE),
        RegistryErrorCode::Unauthorized => ("UNAUTHORIZED", StatusCode::UNAUTHORIZED),
        RegistryErrorCode::Denied => ("DENIED", StatusCode::FORBIDDEN),
        RegistryErrorCode::InUse => ("DENIED", StatusCode::CONFLICT),
        RegistryErrorCode::Unsupported => ("UNSUPPORTED", StatusCode::NOT_FOUND),
        RegistryErrorCode::TooManyRequests => ("TOOMANYREQUESTS", StatusCode::TOO_MANY_REQUESTS),
    }
}

/// Returns an error in the protocol's format.
pub fn error(status: StatusCode, code: &str, text: &str, detail: Option<&str>) -> Response {
    let mut error = json!({ "code": code, "message": text });
    if let Some(detail) = detail {
        error["detail"] = detail.into();
    }
    Response::builder()
        .status(status)
        .content_type("application/json")
        .body(json!({ "errors": [error] }).to_string())
}

/// Returns the response for a fault.
pub fn from_error(fault: &RegistryError) -> Response {
    match fault {
        RegistryError::Protocol { code, text, detail } => {
            let (word, status) = code_and_status(*code);
            let mut response = error(status, word, text, detail.as_deref());
            if *code == RegistryErrorCode::TooManyRequests {
                set(&mut response, RETRY_AFTER, "10");
            }
            response
        }
        RegistryError::OutOfOrder(_) => {
            let text = "the chunk does not start where the previous chunk ended";
            error(
                StatusCode::RANGE_NOT_SATISFIABLE,
                "BLOB_UPLOAD_INVALID",
                text,
                None,
            )
        }
        RegistryError::Rule(cause) => {
            let rendered = error_response::render(cause);
            let status = rendered.status();
            let (setting, cause) = cause.split_setting();
            let (word, text) = match cause {
                Error::Internal(cause) => {
                    tracing::error!(%cause, "registry request failed");
                    ("UNKNOWN", "the server encountered an internal error".to_owned())
                }
                Error::Unauthorized | Error::InvalidToken(_) => {
                    let text = "sign in with your user name and a token, or your password";
                    ("UNAUTHORIZED", text.to_owned())
                }
                Error::Forbidden(reason) => {
                    let reason = reason.as_deref().unwrap_or("you are not allowed to do this");
                    ("DENIED", reason.to_owned())
                }
                Error::RateLimited(_) => ("TOOMANYREQUESTS", cause.to_string()),
                _ if status == StatusCode::SERVICE_UNAVAILABLE => {
                    ("UNAVAILABLE", error_response::plain_text(cause))
                }
                _ => ("UNKNOWN", error_response::plain_text(cause)),
            };
            let text = match setting {
                Some(setting) => format!("{text} (setting: {setting})"),
                None => text,
            };
            let mut response = error(status, word, &text, None);
            if let Some(seconds) = rendered.headers().get(RETRY_AFTER) {
                response.headers_mut().insert(RETRY_AFTER, seconds.clone());
            }
            response
        }
    }
}

/// Returns a challenge for a token, or for one with more access.
pub fn token_challenge(
    base_url: &str,
    challenge: &TokenChallenge,
    required_access: Option<(&ImageName, RegistryActions)>,
) -> Response {
    let text = "authentication required";
    let mut response = error(StatusCode::UNAUTHORIZED, "UNAUTHORIZED", text, None);
    let mut challenge_text = format!("Bearer realm=\"{base_url}/jwt/auth\",service=\"{SERVICE}\"");
    if let Some((name, actions)) = required_access {
        let words = [
            (actions.pull, "pull"),
            (actions.push, "push"),
            (actions.delete, "delete"),
        ];
        let words: Vec<&str> = words
            .into_iter()
            .filter(|(is, _)| *is)
            .map(|(_, word)| word)
            .collect();
        challenge_text.push_str(&format!(",scope=\"repository:{name}:{}\"", words.join(",")));
    }
    if *challenge == TokenChallenge::Insufficient {
        challenge_text.push_str(",error=\"insufficient_scope\"");
    }
    set(&mut response, WWW_AUTHENTICATE, &challenge_text);
    response
}

/// Returns the response for a rejected bearer token.
pub fn rejection(
    base_url: &str,
    token_rejection: &TokenRejection,
    required_access: Option<(&ImageName, RegistryActions)>,
) -> Response {
    match token_rejection {
        TokenRejection::Challenge(challenge) => token_challenge(base_url, challenge, required_access),
        TokenRejection::Fault(fault) => from_error(fault),
    }
}

/// Returns the response for a method that the path does not support.
pub fn not_allowed(allowed: &'static str) -> Response {
    let text = "the operation is unsupported";
    let mut response = error(StatusCode::METHOD_NOT_ALLOWED, "UNSUPPORTED", text, None);
    set(&mut response, ALLOW, allowed);
    response
}

/// Returns a response without a body.
pub fn empty(status: StatusCode) -> Response {
    let mut response = Response::builder().status(status).finish();
    if status != StatusCode::NO_CONTENT {
        set(&mut response, CONTENT_LENGTH, "0");
    }
    response
}

/// Returns the response for created content, with its location.
pub fn created(name: &ImageName, kind: &str, digest: &Digest) -> Response {
    let mut response = empty(StatusCode::CREATED);
    set(&mut response, LOCATION, &format!("/v2/{name}/{kind}/{digest}"));
    set(&mut response, CONTENT_DIGEST, digest.as_str());
    response
}

/// Adds the progress and the location of an upload.
pub fn progress(mut response: Response, name: &ImageName, uuid: &str, received: u64) -> Response {
    set(
        &mut response,
        LOCATION,
        &format!("/v2/{name}/blobs/uploads/{uuid}"),
    );
    set(&mut response, RANGE, &format!("0-{}", received.saturating_sub(1)));
    set(&mut response, UPLOAD, uuid);
    // Each chunk costs a row and an object.
    set(&mut response, MIN_CHUNK_HEADER, "1048576");
    response
}

/// Returns a document.
pub fn document(kind: &str, content: impl Into<Body>) -> Response {
    Response::builder().content_type(kind).body(content)
}

/// Sets a header, unless the value is invalid in a header.
pub fn set(response: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

/// Converts an error of the rest of the server to the protocol's format.
pub async fn to_registry_format(mut plain: Response) -> Response {
    let status = plain.status();
    let code = match status {
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => "UNAVAILABLE",
        status if status.is_server_error() => "UNKNOWN",
        _ => "UNSUPPORTED",
    };
    let error_body: Value = plain.take_body().into_json().await.unwrap_or_default();
    let text = error_body["message"].as_str().unwrap_or(status.as_str());
    let mut response = error(status, code, text, None);
    if let Some(seconds) = plain.headers().get(RETRY_AFTER) {
        response.headers_mut().insert(RETRY_AFTER, seconds.clone());
    }
    finish(response)
}

/// Returns whether a response already has the common headers.
pub fn is_finished(response: &Response) -> bool {
    response.headers().contains_key(VERSION)
}

/// Adds the common headers.
pub fn finish(mut response: Response) -> Response {
    set(&mut response, VERSION, "registry/2.0");
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn internal_errors_use_registry_format_and_omit_cause() {
        let failed = error_response::render(&Error::internal("the disk of cellar 7 is full"));
        let mut response = to_registry_format(failed).await;
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert!(is_finished(&response));
        let body: Value = response.take_body().into_json().await.expect("JSON");
        assert_eq!(body["errors"][0]["code"], "UNKNOWN");
        assert!(!body.to_string().contains("cellar"), "{body}");
        let busy = to_registry_format(error_response::render(&Error::Contention)).await;
        assert_eq!(busy.headers()[RETRY_AFTER], "1");
    }

    #[tokio::test]
    async fn overload_is_reported_as_unavailable_with_time_to_retry() {
        let mut response = from_error(&Error::Overloaded.into());
        let head = (response.status(), &response.headers()[RETRY_AFTER]);
        assert_eq!(
            head,
            (StatusCode::SERVICE_UNAVAILABLE, &HeaderValue::from_static("5"))
        );
        let body: Value = response.take_body().into_json().await.expect("JSON");
        assert_eq!(body["errors"][0]["code"], "UNAVAILABLE");
        let limited = from_error(&Error::RateLimited(7).into());
        assert_eq!(limited.headers()[RETRY_AFTER], "7");
    }
}
