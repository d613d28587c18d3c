//! Control requests of a test server: they reset and save its state, and change its clock and its faults.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use chrono::{DateTime, SecondsFormat, Utc};
use domain::secrets::{Secret, constant_time_eq, digest};
use poem::http::header::AUTHORIZATION;
use poem::http::{HeaderMap, Method, StatusCode};
use poem::{Endpoint, Request, Response, Result};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use storage::clock;

use super::Error;
use super::faults::FaultRule;
use super::states::States;
use crate::api::error_response::json_response;

/// Path of the control requests.
pub(super) const PATH: &str = "/-/test-server";
/// Maximum size of a request body, in bytes.
const MAX_BODY_BYTES: usize = 64 << 10;

/// The receiver of control requests.
pub(super) struct Control {
    states: States,
    token_digest: String,
}

/// Endpoint of a test server: control requests, and all other requests on the current state.
pub(super) struct TestEndpoint {
    control: Arc<Control>,
}

impl TestEndpoint {
    pub(super) fn new(control: Arc<Control>) -> Self {
        Self { control }
    }
}

impl Endpoint for TestEndpoint {
    type Output = Response;

    async fn call(&self, request: Request) -> Result<Response> {
        let rest = request.uri().path().strip_prefix(PATH);
        match rest.filter(|rest| rest.is_empty() || rest.starts_with('/')) {
            Some(action) => {
                let action = action.trim_matches('/').to_owned();
                Ok(self.control.respond(request, &action).await)
            }
            None => Ok(self.control.states.switch().call(request).await),
        }
    }
}

/// Reason why a control request is rejected.
enum ControlError {
    Request(StatusCode, String),
    Server(Error),
}

impl From<Error> for ControlError {
    fn from(error: Error) -> Self {
        Self::Server(error)
    }
}

/// Body of a reset.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ResetRequest {
    /// Snapshot to restore, now and in later resets.
    snapshot: Option<PathBuf>,
}

/// Body of a request to save a snapshot.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SnapshotRequest {
    /// Directory to create.
    directory: Option<PathBuf>,
}

/// Body of a request to add a fault.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FaultRequest {
    rule: String,
}

/// Body of a request to set the clock.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClockRequest {
    /// Time at which the clock is frozen; the clock runs if it is null.
    #[serde(deserialize_with = "Option::deserialize")]
    time: Option<DateTime<Utc>>,
}

/// Body of a request to advance the clock.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AdvanceRequest {
    seconds: u32,
}

impl Control {
    pub(super) fn new(states: States, token: Secret) -> Self {
        Self {
            states,
            token_digest: digest(token.expose()),
        }
    }

    /// Returns the states.
    pub(super) fn states(&self) -> &States {
        &self.states
    }

    async fn respond(&self, request: Request, action: &str) -> Response {
        match self.run(request, action).await {
            Ok(response) => response,
            Err(ControlError::Request(status, text)) => error(status, &text),
            Err(ControlError::Server(cause)) => error(status_of(&cause), &cause.to_string()),
        }
    }

    async fn run(&self, request: Request, action: &str) -> Result<Response, ControlError> {
        if !self.is_authorized(request.headers()) {
            let text = "401 Unauthorized - send the control token as a bearer token";
            return Err(ControlError::Request(StatusCode::UNAUTHORIZED, text.to_owned()));
        }
        let states = &self.states;
        match (request.method(), action) {
            (&Method::POST, "reset") => {
                let body: ResetRequest = body_or_default(request).await?;
                states.reset(body.snapshot).await?;
                Ok(StatusCode::NO_CONTENT.into())
            }
            (&Method::POST, "snapshot") => {
                let body: SnapshotRequest = body_or_default(request).await?;
                let directory = states.save(body.directory).await?;
                Ok(json_response(
                    StatusCode::CREATED,
                    &json!({ "directory": directory }),
                ))
            }
            (&Method::GET, "clock") => Ok(clock_response()),
            (&Method::PUT, "clock") => {
                let body: ClockRequest = body(request).await?;
                states.set_clock(body.time).await?;
                Ok(clock_response())
            }
            (&Method::POST, "clock/advance") => {
                let body: AdvanceRequest = body(request).await?;
                states.advance_clock(body.seconds).await?;
                Ok(clock_response())
            }
            (&Method::GET, "faults") => Ok(json_response(StatusCode::OK, &json!(states.faults().list()))),
            (&Method::POST, "faults") => {
                let body: FaultRequest = body(request).await?;
                let rule: FaultRule = body.rule.parse().map_err(bad_request)?;
                let added = states.faults().add(rule).map_err(bad_request)?;
                Ok(json_response(StatusCode::CREATED, &json!(added)))
            }
            (&Method::DELETE, "faults") => {
                states.faults().clear();
                Ok(StatusCode::NO_CONTENT.into())
            }
            (&Method::DELETE, action) if action.starts_with("faults/") => {
                let id = action.strip_prefix("faults/").and_then(|id| id.parse().ok());
                match id.is_some_and(|id| states.faults().remove(id)) {
                    true => Ok(StatusCode::NO_CONTENT.into()),
                    false => Err(ControlError::Request(
                        StatusCode::NOT_FOUND,
                        "404 Fault Not Found".to_owned(),
                    )),
                }
            }
            (_, "reset" | "snapshot" | "clock" | "clock/advance" | "faults") => Err(ControlError::Request(
                StatusCode::METHOD_NOT_ALLOWED,
                "405 Method Not Allowed".to_owned(),
            )),
            _ => Err(ControlError::Request(
                StatusCode::NOT_FOUND,
                "404 Not Found".to_owned(),
            )),
        }
    }

    fn is_authorized(&self, headers: &HeaderMap) -> bool {
        let value = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = value.and_then(|value| value.strip_prefix("Bearer "));
        // Digests have the same length, so the comparison reveals nothing about the token.
        token.is_some_and(|token| constant_time_eq(&digest(token), &self.token_digest))
    }
}

fn bad_request(cause: impl std::fmt::Display) -> ControlError {
    ControlError::Request(StatusCode::BAD_REQUEST, cause.to_string())
}

fn error(status: StatusCode, text: &str) -> Response {
    json_response(status, &json!({ "message": text }))
}

fn status_of(error: &Error) -> StatusCode {
    match error {
        Error::NoSnapshot { .. } | Error::TimeOutOfRange => StatusCode::BAD_REQUEST,
        Error::Exists(_) | Error::RequestsInProgress | Error::ClockRuns => StatusCode::CONFLICT,
        Error::Stopping => StatusCode::SERVICE_UNAVAILABLE,
        Error::Io { cause, .. } if is_fault_of_path(cause.kind()) => StatusCode::BAD_REQUEST,
        Error::Server(_) | Error::Io { .. } | Error::StateLost(_) | Error::Task(_) => {
            StatusCode::INTERNAL_SERVER_ERROR
        }
    }
}

/// Returns whether another path in the request solves an error.
fn is_fault_of_path(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::PermissionDenied
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::NotADirectory
            | ErrorKind::AlreadyExists
            | ErrorKind::InvalidFilename
    )
}

fn clock_response() -> Response {
    let time = clock::now().to_rfc3339_opts(SecondsFormat::Millis, true);
    let body = json!({ "time": time, "frozen": clock::frozen().is_some() });
    json_response(StatusCode::OK, &body)
}

/// Reads a JSON body.
async fn body<T: DeserializeOwned>(request: Request) -> Result<T, ControlError> {
    parse(&bytes(request).await?)
}

/// Reads a JSON body that may be empty.
async fn body_or_default<T: DeserializeOwned + Default>(request: Request) -> Result<T, ControlError> {
    let bytes = bytes(request).await?;
    match bytes.is_empty() {
        true => Ok(T::default()),
        false => parse(&bytes),
    }
}

async fn bytes(mut request: Request) -> Result<Vec<u8>, ControlError> {
    let read = request.take_body().into_bytes_limit(MAX_BODY_BYTES).await;
    read.map(Vec::from).map_err(bad_request)
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ControlError> {
    let value: Value = serde_json::from_slice(bytes)
        .map_err(|error| bad_request(format!("the body is not valid JSON: {error}")))?;
    // A sequence would be accepted as the attributes in their order.
    if !value.is_object() {
        return Err(bad_request("the body is not a JSON object"));
    }
    serde_json::from_value(value).map_err(|error| bad_request(format!("the body is invalid: {error}")))
}
