//! Error responses: the only module that maps errors to statuses and bodies (docs/API-DESIGN.md).

use contract::operation::{ErrorFormat, Operation};
use domain::kernel::error::{Error, ScimErrorType, TokenFault};
use poem::Response;
use poem::http::header::{ACCEPT, ALLOW, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use poem::http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::{Value, json};

/// Seconds after which clients retry a request that exceeded a budget. Most transfers have ended by then.
const OVERLOADED_RETRY_SECONDS: &str = "5";
/// Seconds until a retry after too many Git operations were in progress.
const BUSY_RETRY_SECONDS: &str = "10";
/// Challenge of package clients.
const BASIC_CHALLENGE: HeaderValue = HeaderValue::from_static("Basic realm=\"Holdfast\"");
/// Challenge of SCIM, which RFC 7644 2 requires.
const SCIM_CHALLENGE: HeaderValue = HeaderValue::from_static("Bearer realm=\"Holdfast\"");

/// Returns the response for an error.
#[must_use]
pub fn render(error: &Error) -> Response {
    render_as(ErrorFormat::Plain, error)
}

/// Returns the response for an error of an operation to a request with these headers.
#[must_use]
pub fn render_for(operation: &Operation, headers: &HeaderMap, error: &Error) -> Response {
    match operation.package_client {
        true => render_for_package_client(error, operation.cargo_client),
        false => render_as(negotiate(operation.error_format, headers), error),
    }
}

/// Returns the response for an error in the error format of an operation.
fn render_as(format: ErrorFormat, error: &Error) -> Response {
    let (status, body) = parts(error);
    let (setting, error) = error.split_setting();
    let mut response = match format {
        ErrorFormat::Plain => json_response(status, &with_error(body)),
        ErrorFormat::Scim | ErrorFormat::ScimWithMessage => {
            let message = format == ErrorFormat::ScimWithMessage;
            let detail = with_setting(scim_detail(&body, error), setting);
            scim(status, scim_type(error), &detail, message)
        }
    };
    let headers = response.headers_mut();
    match error {
        Error::Unauthorized if format != ErrorFormat::Plain => {
            headers.insert(WWW_AUTHENTICATE, SCIM_CHALLENGE);
        }
        Error::InvalidToken(fault) => {
            let challenge =
                format!("Bearer realm=\"Holdfast\", error=\"invalid_token\", error_description=\"{fault}\"");
            if let Ok(challenge) = HeaderValue::from_str(&challenge) {
                headers.insert(WWW_AUTHENTICATE, challenge);
            }
        }
        Error::RateLimited(seconds) => {
            headers.insert(RETRY_AFTER, HeaderValue::from(*seconds));
        }
        Error::Overloaded | Error::DatabaseBusy | Error::DatabaseUnavailable | Error::TooManyFiles => {
            headers.insert(RETRY_AFTER, HeaderValue::from_static(OVERLOADED_RETRY_SECONDS));
        }
        Error::Busy => {
            headers.insert(RETRY_AFTER, HeaderValue::from_static(BUSY_RETRY_SECONDS));
        }
        // The conflicting request is finished by then.
        Error::Contention => {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        _ => {}
    }
    if status == StatusCode::NOT_MODIFIED {
        response.headers_mut().remove(CONTENT_TYPE);
        response.set_body(());
    }
    response
}

/// Returns the response for an error of an operation of package clients. It repeats the message under `error`, which npm
/// prints, and with `for_cargo` under `errors`, which Cargo prints. Status 401 has the challenge of HTTP Basic
/// authentication, so that clients send the credentials that they are configured with.
fn render_for_package_client(error: &Error, for_cargo: bool) -> Response {
    let mut response = render(error);
    let (status, mut body) = parts(error);
    let text = with_setting(text_of(&body["message"]), error.split_setting().0);
    if let Some(entries) = body
        .as_object_mut()
        .filter(|_| status != StatusCode::NOT_MODIFIED)
    {
        if entries["message"].is_string() {
            entries
                .entry("error")
                .or_insert_with(|| Value::String(text.clone()));
        }
        if for_cargo {
            entries.insert("errors".to_owned(), json!([{ "detail": text }]));
        }
        response.set_body(body.to_string());
    }
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, BASIC_CHALLENGE);
    }
    response
}

/// Returns an error that a test of a client requests, in the form of errors of the operation.
#[must_use]
pub fn render_status(operation: Option<&Operation>, headers: &HeaderMap, status: StatusCode) -> Response {
    let text = status.to_string();
    let (mut response, challenge) = match operation {
        Some(operation) if operation.package_client => {
            let mut body = error_body(status, "");
            if operation.cargo_client {
                body["errors"] = json!([{ "detail": text }]);
            }
            (json_response(status, &body), Some(BASIC_CHALLENGE))
        }
        Some(operation) if operation.error_format != ErrorFormat::Plain => {
            let format = negotiate(operation.error_format, headers);
            let message = format == ErrorFormat::ScimWithMessage;
            (scim(status, None, &text, message), Some(SCIM_CHALLENGE))
        }
        _ => (
            json_response(status, &json!({ "message": text, "error": text })),
            None,
        ),
    };
    if status == StatusCode::UNAUTHORIZED
        && let Some(challenge) = challenge
    {
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
    response
}

/// Returns the text of an error for protocols without JSON bodies.
#[must_use]
pub fn plain_text(error: &Error) -> String {
    match error {
        Error::Unauthorized
        | Error::Forbidden(None)
        | Error::NotFound(_)
        | Error::NothingToRevoke
        | Error::NotFoundOrExpired
        | Error::ResourceLocked
        | Error::PreconditionFailed
        | Error::TooLarge
        | Error::NotAllowed(None)
        | Error::NotModified => text_of(&parts(error).1["message"]),
        Error::BySetting { setting, error } => match error.as_ref() {
            error @ Error::InvalidAttributes(_) => {
                with_setting(text_of(&parts(error).1["message"]), Some(setting))
            }
            error => with_setting(plain_text(error), Some(setting)),
        },
        other => other.to_string(),
    }
}

/// Returns the text of an error that is stored in a row and shown to clients later: the message of the
/// response, without the reason of a missing permission.
#[must_use]
pub fn stored_reason(error: &Error) -> String {
    match error {
        Error::Forbidden(_) => plain_text(&Error::Forbidden(None)),
        Error::NotFound(kind) => format!("404 {kind} Not Found"),
        other => plain_text(other),
    }
}

/// Returns the text of an error with the name of the setting that refuses the request, for protocols without an attribute
/// for it.
fn with_setting(text: String, setting: Option<&str>) -> String {
    match setting {
        Some(setting) => format!("{text} (setting: {setting})"),
        None => text,
    }
}

/// Repeats the message under `error`, unless it is an object or `error` has a code already. Clients that prefer `error`
/// would otherwise lose the attributes of the object.
fn with_error(mut body: Value) -> Value {
    let message = body["message"].clone();
    if message.is_string()
        && let Some(entries) = body.as_object_mut()
    {
        entries.entry("error").or_insert(message);
    }
    body
}

/// Returns a JSON response.
#[must_use]
pub fn json_response(status: StatusCode, body: &Value) -> Response {
    Response::builder()
        .status(status)
        .content_type("application/json")
        .body(body.to_string())
}

/// Media type of SCIM.
const SCIM: &str = "application/scim+json";

/// Returns the error format of a response to a request with these headers. A client that accepts nothing but SCIM
/// receives errors without `message`, which RFC 7644 does not define.
fn negotiate(format: ErrorFormat, headers: &HeaderMap) -> ErrorFormat {
    let accepted = headers.get(ACCEPT).and_then(|accepted| accepted.to_str().ok());
    let only_scim = accepted.is_some_and(|accepted| accepted.trim().eq_ignore_ascii_case(SCIM));
    match format {
        ErrorFormat::ScimWithMessage if only_scim => ErrorFormat::Scim,
        other => other,
    }
}

/// Returns an error in the format of RFC 7644 3.12, on request with `message` for other clients.
fn scim(status: StatusCode, scim_type: Option<&str>, detail: &str, message: bool) -> Response {
    let mut body = json!({ "schemas": ["urn:ietf:params:scim:api:messages:2.0:Error"] });
    if let Some(kind) = scim_type {
        body["scimType"] = json!(kind);
    }
    body["detail"] = json!(detail);
    body["status"] = json!(status.as_str());
    if message {
        body["message"] = json!(detail);
    }
    Response::builder()
        .status(status)
        .content_type(SCIM)
        .body(body.to_string())
}

fn scim_detail(plain: &Value, error: &Error) -> String {
    match error {
        Error::NotFound(kind) if !kind.is_empty() => format!("{kind} not found"),
        _ => text_of(&plain["message"]),
    }
}

/// Returns a message as one text; the text of an attribute starts with its name.
fn text_of(message: &Value) -> String {
    let Some(attributes) = message.as_object() else {
        return message.as_str().unwrap_or_default().to_owned();
    };
    let mut sentences = Vec::new();
    for (name, texts) in attributes {
        sentences.extend(texts.as_str().map(str::to_owned));
        let texts = texts.as_array().into_iter().flatten().filter_map(Value::as_str);
        sentences.extend(texts.map(|text| format!("{name} {text}")));
    }
    sentences.join(", ")
}

/// Returns the `scimType` of an error (RFC 7644 3.12).
fn scim_type(error: &Error) -> Option<&'static str> {
    match error {
        Error::InvalidScimRequest { fault, .. } => Some(match fault {
            ScimErrorType::Filter => "invalidFilter",
            ScimErrorType::Path => "invalidPath",
            ScimErrorType::Syntax => "invalidSyntax",
            ScimErrorType::Value => "invalidValue",
            ScimErrorType::Mutability => "mutability",
            ScimErrorType::Target => "noTarget",
        }),
        Error::InvalidParameters(_) | Error::InvalidAttributes(_) => Some("invalidValue"),
        Error::Conflict(_) | Error::ResourceLocked => Some("uniqueness"),
        _ => None,
    }
}

/// Returns the body of an error that does not come from a domain rule, under both keys.
#[must_use]
pub fn error_body(status: StatusCode, reason: &str) -> Value {
    let text = if reason.is_empty() {
        status.to_string()
    } else {
        format!("{status} - {reason}")
    };
    json!({ "message": text, "error": text })
}

/// Returns the response for an unknown path or method, in the error format of the path.
#[must_use]
pub fn routing_error(format: ErrorFormat, status: StatusCode, allow: &str) -> Response {
    let text = match status {
        StatusCode::METHOD_NOT_ALLOWED => "405 Method Not Allowed",
        _ => "404 Not Found",
    };
    let mut response = match format {
        ErrorFormat::Plain => json_response(status, &json!({ "message": text, "error": text })),
        ErrorFormat::Scim | ErrorFormat::ScimWithMessage => scim(status, None, text, false),
    };
    if status == StatusCode::METHOD_NOT_ALLOWED
        && let Ok(allow) = HeaderValue::from_str(allow)
    {
        response.headers_mut().insert(ALLOW, allow);
    }
    response
}

/// Returns the response for a path whose project or group contains slashes that are not encoded.
#[must_use]
pub fn unencoded_path_error() -> Response {
    let text = "404 Not Found - the path of a project or group must be URL-encoded, such as group%2Fproject";
    json_response(StatusCode::NOT_FOUND, &json!({ "message": text, "error": text }))
}

fn parts(error: &Error) -> (StatusCode, Value) {
    let message = |status: StatusCode, text: &str| (status, json!({ "message": text }));
    let unavailable = |text| {
        let text = format!("503 Service Unavailable - {text}");
        message(StatusCode::SERVICE_UNAVAILABLE, &text)
    };
    match error {
        Error::Unauthorized => message(StatusCode::UNAUTHORIZED, "401 Unauthorized"),
        Error::InvalidToken(fault) => (StatusCode::UNAUTHORIZED, invalid_token(*fault)),
        Error::InsufficientScope(scopes) => {
            let description = "The request requires higher privileges than provided by the access token.";
            let body = json!({
                "message": format!("403 Forbidden - {description}"),
                "error": "insufficient_scope",
                "error_description": description,
                "scope": scopes.join(" "),
            });
            (StatusCode::FORBIDDEN, body)
        }
        Error::Forbidden(None) => message(StatusCode::FORBIDDEN, "403 Forbidden"),
        Error::Forbidden(Some(reason)) => {
            message(StatusCode::FORBIDDEN, &format!("403 Forbidden - {reason}"))
        }
        Error::NotFound(kind) if kind.is_empty() => message(StatusCode::NOT_FOUND, "404 Not found"),
        Error::NotFound(kind) => message(StatusCode::NOT_FOUND, &format!("404 {kind} Not Found")),
        Error::NothingToRevoke => message(StatusCode::NOT_FOUND, "404 Not Found"),
        Error::NotFoundOrExpired => message(StatusCode::NOT_FOUND, "404 Not found or has expired"),
        Error::InvalidParameters(faults) => {
            let text = faults.texts.join(", ");
            let mut body = json!({ "message": text, "error": text });
            if !faults.allowed_values.is_empty() {
                body["allowed_values"] = json!(faults.allowed_values);
            }
            (StatusCode::BAD_REQUEST, body)
        }
        Error::Rejected(text) | Error::InvalidScimRequest { text, .. } => {
            message(StatusCode::BAD_REQUEST, text)
        }
        Error::InvalidAttributes(attributes) => (StatusCode::BAD_REQUEST, json!({ "message": attributes })),
        Error::PickFailed { message, code } => (
            StatusCode::BAD_REQUEST,
            json!({ "message": message, "error_code": code }),
        ),
        Error::BySetting { setting, error } => {
            let (status, mut body) = parts(error);
            body["setting"] = json!(setting);
            (status, body)
        }
        Error::Conflict(text) => message(StatusCode::CONFLICT, text),
        Error::ResourceLocked => message(StatusCode::CONFLICT, "409 Conflict: Resource lock"),
        Error::PreconditionFailed => message(StatusCode::PRECONDITION_FAILED, "412 Precondition Failed"),
        Error::TooLarge => message(StatusCode::PAYLOAD_TOO_LARGE, "413 Request Entity Too Large"),
        Error::FileTooLarge(text) => message(
            StatusCode::PAYLOAD_TOO_LARGE,
            &format!("413 Request Entity Too Large - {text}"),
        ),
        Error::Unprocessable(text) => (
            StatusCode::UNPROCESSABLE_ENTITY,
            json!({ "message": text, "error": text }),
        ),
        Error::NotAllowed(text) => {
            let text = text.as_deref().unwrap_or("405 Method Not Allowed");
            (
                StatusCode::METHOD_NOT_ALLOWED,
                json!({ "message": text, "error": text }),
            )
        }
        Error::NotAcceptable(text) => message(StatusCode::NOT_ACCEPTABLE, text),
        Error::NotModified => message(StatusCode::NOT_MODIFIED, "304 Not Modified"),
        Error::RateLimited(_) => {
            let text = "This endpoint has been requested too many times. Try again later.";
            (
                StatusCode::TOO_MANY_REQUESTS,
                json!({ "message": { "error": text } }),
            )
        }
        Error::TimedOut => unavailable("The request took too long"),
        Error::Busy => unavailable("Too many Git operations are in progress; retry the request later"),
        Error::Contention => unavailable("The resource was changed concurrently; retry the request"),
        Error::DatabaseBusy => unavailable("Too many requests use the database; retry the request later"),
        Error::Overloaded => unavailable("Too much data is in transfer; retry the request later"),
        Error::StorageFull => message(
            StatusCode::INSUFFICIENT_STORAGE,
            "507 Insufficient Storage - No space is left on the disk of the server",
        ),
        Error::StorageReadOnly => unavailable("The disk of the server is read-only"),
        Error::StorageFailed => unavailable("The disk of the server has failed"),
        Error::TooManyFiles => unavailable("The server has too many open files; retry the request later"),
        Error::DatabaseUnavailable => unavailable("The database is not available; retry the request later"),
        Error::Internal(_) => message(StatusCode::INTERNAL_SERVER_ERROR, "500 Internal Server Error"),
    }
}

fn invalid_token(fault: TokenFault) -> Value {
    let mut body = json!({
        "message": "401 Unauthorized",
        "error": "invalid_token",
        "error_description": fault.to_string(),
    });
    if let TokenFault::ImpersonationDisabled = fault {
        body["setting"] = json!("impersonation_enabled");
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn rendered(error: Error) -> (u16, Value) {
        let response = render(&error);
        let status = response.status().as_u16();
        let body = response.into_body().into_bytes().await.expect("a body");
        (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    #[test]
    fn stored_reasons_are_messages_of_responses_and_others_are_unchanged() {
        assert_eq!(stored_reason(&Error::Unauthorized), "401 Unauthorized");
        assert_eq!(stored_reason(&Error::forbidden_because("why")), "403 Forbidden");
        assert_eq!(stored_reason(&Error::not_found("Group")), "404 Group Not Found");
        assert_eq!(stored_reason(&Error::NotAllowed(None)), "405 Method Not Allowed");
        assert_eq!(stored_reason(&Error::Rejected("refused".into())), "refused");
    }

    #[tokio::test]
    async fn invalid_parameters_are_in_both_keys() {
        let error =
            Error::InvalidParameters(vec!["a is missing".to_owned(), "b is invalid".to_owned()].into());
        let text = "a is missing, b is invalid";
        assert_eq!(
            rendered(error).await,
            (400, json!({ "message": text, "error": text }))
        );
    }

    #[tokio::test]
    async fn insufficient_scope_lists_accepted_scopes() {
        let (status, body) = rendered(Error::InsufficientScope(vec!["api", "read_api"])).await;
        assert_eq!(
            (status, &body["error"], &body["scope"]),
            (403, &json!("insufficient_scope"), &json!("api read_api"))
        );
        assert!(body["error_description"].is_string() && body["message"].is_string());
    }

    #[tokio::test]
    async fn internal_error_hides_its_cause() {
        let (status, body) = rendered(Error::internal("secret path /var/x")).await;
        assert_eq!(
            (status, body),
            (
                500,
                json!({ "message": "500 Internal Server Error", "error": "500 Internal Server Error" })
            )
        );
    }

    #[tokio::test]
    async fn error_repeats_texts_and_no_objects() {
        let text = "Member already exists";
        let conflict = rendered(Error::Conflict(text.into())).await;
        assert_eq!(conflict, (409, json!({ "message": text, "error": text })));
        let (_, attributes) = rendered(Error::attribute("name", "is long")).await;
        assert_eq!(attributes, json!({ "message": { "name": ["is long"] } }));
        let (_, limited) = rendered(Error::RateLimited(1)).await;
        assert!(limited["message"].is_object() && limited.get("error").is_none());
    }

    #[tokio::test]
    async fn busy_returns_503_with_retry_after() {
        let answered = render(&Error::Contention);
        assert_eq!(answered.headers()[RETRY_AFTER], "1");
        assert_eq!(rendered(Error::Contention).await.0, 503);
        let answered = render(&Error::Overloaded);
        assert_eq!(answered.headers()[RETRY_AFTER], "5");
        assert_eq!(rendered(Error::Overloaded).await.0, 503);
        let answered = render(&Error::Busy);
        assert_eq!(answered.headers()[RETRY_AFTER], BUSY_RETRY_SECONDS);
        assert_eq!(rendered(Error::Busy).await.0, 503);
    }

    #[tokio::test]
    async fn scim_errors_have_scim_format_and_message() {
        let answered = render_as(
            ErrorFormat::ScimWithMessage,
            &Error::Conflict("Email has already been taken".into()),
        );
        assert_eq!(answered.headers()[CONTENT_TYPE], "application/scim+json");
        let body = answered.into_body().into_bytes().await.expect("a body");
        let expected = json!({
            "schemas": ["urn:ietf:params:scim:api:messages:2.0:Error"],
            "scimType": "uniqueness",
            "detail": "Email has already been taken",
            "status": "409",
            "message": "Email has already been taken",
        });
        assert_eq!(serde_json::from_slice::<Value>(&body).ok(), Some(expected));
        let often = "This endpoint has been requested too many times. Try again later.";
        let value = json!("invalidValue");
        for (error, status, kind, detail) in [
            (Error::Unauthorized, "401", Value::Null, "401 Unauthorized"),
            (
                Error::not_found("Resource a"),
                "404",
                Value::Null,
                "Resource a not found",
            ),
            (Error::attribute("name", "is long"), "400", value, "name is long"),
            (Error::RateLimited(1), "429", Value::Null, often),
        ] {
            let answered = render_as(ErrorFormat::Scim, &error);
            let challenge = answered.headers().contains_key(WWW_AUTHENTICATE);
            assert_eq!(challenge, status == "401");
            let body = answered.into_body().into_bytes().await.expect("a body");
            let body: Value = serde_json::from_slice(&body).expect("JSON");
            assert_eq!(body["message"], Value::Null);
            let found = (&body["status"], &body["scimType"], &body["detail"]);
            assert_eq!(found, (&json!(status), &kind, &json!(detail)));
        }
    }

    #[test]
    fn scim_errors_omit_message_for_clients_that_accept_only_scim() {
        for (accepted, format) in [
            (None, ErrorFormat::ScimWithMessage),
            (Some("*/*"), ErrorFormat::ScimWithMessage),
            (Some("application/json"), ErrorFormat::ScimWithMessage),
            (Some("application/scim+json, */*"), ErrorFormat::ScimWithMessage),
            (Some("application/scim+json"), ErrorFormat::Scim),
            (Some(" Application/SCIM+JSON "), ErrorFormat::Scim),
        ] {
            let accepted = accepted.map(|accepted| (ACCEPT, HeaderValue::from_static(accepted)));
            let headers: HeaderMap = accepted.into_iter().collect();
            assert_eq!(negotiate(ErrorFormat::ScimWithMessage, &headers), format);
            assert_eq!(negotiate(ErrorFormat::Scim, &headers), ErrorFormat::Scim);
            assert_eq!(negotiate(ErrorFormat::Plain, &headers), ErrorFormat::Plain);
        }
    }

    #[tokio::test]
    async fn not_modified_has_no_body() {
        assert_eq!(rendered(Error::NotModified).await, (304, Value::Null));
    }
}
