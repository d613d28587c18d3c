//! Token endpoints for applications (RFC 6749, 7009, 7662).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use domain::identity::authentication::check_account_active;
use domain::identity::oauth::applications::{self, Application};
use domain::identity::oauth::{OauthError, tokens};
use domain::kernel::Backend;
use domain::kernel::error::Error;
use percent_encoding::percent_decode_str;
use poem::http::header::{AUTHORIZATION, CACHE_CONTROL, PRAGMA, WWW_AUTHENTICATE};
use poem::http::{HeaderValue, StatusCode};
use poem::web::Data;
use poem::{Body, Request, Response, handler};
use serde_json::{Map, Value, json};

use super::FORM_LIMIT;
use crate::api::client_address::{address_key, client_ip};
use crate::api::credentials::AcceptedCredentials;
use crate::api::error_response::json_response;
use crate::api::{credentials, error_response, parameters};

/// `POST /oauth/token`.
#[handler]
pub(super) async fn issue(request: &Request, body: Body, Data(backend): Data<&Backend>) -> Response {
    answer(request, issued(request, body, backend).await)
}

async fn issued(request: &Request, body: Body, backend: &Backend) -> Result<Value, OauthError> {
    let sent = fields(request, body).await?;
    let application = client(request, &sent, backend).await?;
    let issued = match text(&sent, "grant_type") {
        Some("authorization_code") => {
            let code = text(&sent, "code").ok_or(OauthError::InvalidRequest("code is missing"))?;
            let (target, verifier) = (text(&sent, "redirect_uri"), text(&sent, "code_verifier"));
            tokens::exchange(backend, &application, code, target, verifier, client_ip(request)).await?
        }
        Some("refresh_token") => {
            let token = text(&sent, "refresh_token");
            let token = token.ok_or(OauthError::InvalidRequest("refresh_token is missing"))?;
            tokens::refresh(
                backend,
                &application,
                token,
                text(&sent, "scope"),
                client_ip(request),
            )
            .await?
        }
        Some(_) => return Err(OauthError::UnsupportedGrantType),
        None => return Err(OauthError::InvalidRequest("grant_type is missing")),
    };
    Ok(json!({
        "access_token": issued.access_token,
        "token_type": "Bearer",
        "expires_in": issued.expires_in,
        "refresh_token": issued.refresh_token,
        "scope": issued.scope,
        "created_at": issued.created_at.timestamp(),
    }))
}

/// `POST /oauth/revoke`.
#[handler]
pub(super) async fn revoke(request: &Request, body: Body, Data(backend): Data<&Backend>) -> Response {
    answer(request, revoked(request, body, backend).await)
}

async fn revoked(request: &Request, body: Body, backend: &Backend) -> Result<Value, OauthError> {
    let sent = fields(request, body).await?;
    let application = client(request, &sent, backend).await?;
    let token = text(&sent, "token").ok_or(OauthError::InvalidRequest("token is missing"))?;
    tokens::revoke(backend, &application, token, client_ip(request)).await?;
    Ok(json!({}))
}

/// `POST /oauth/introspect`.
#[handler]
pub(super) async fn introspect(request: &Request, body: Body, Data(backend): Data<&Backend>) -> Response {
    answer(request, introspected(request, body, backend).await)
}

async fn introspected(request: &Request, body: Body, backend: &Backend) -> Result<Value, OauthError> {
    let sent = fields(request, body).await?;
    let application = client(request, &sent, backend).await?;
    // A public application cannot authenticate itself.
    if !application.confidential {
        return Err(OauthError::InvalidClient);
    }
    let token = text(&sent, "token").ok_or(OauthError::InvalidRequest("token is missing"))?;
    let (token, user) = match tokens::find(backend, token).await {
        Ok((token, user))
            if token.application_id == application.id && check_account_active(&user).is_ok() =>
        {
            (token, user)
        }
        Ok(_) | Err(Error::Unauthorized | Error::InvalidToken(_)) => return Ok(json!({ "active": false })),
        Err(error) => return Err(error.into()),
    };
    Ok(json!({
        "active": true,
        "scope": token.scopes,
        "client_id": application.uid,
        "token_type": "Bearer",
        "username": user.username,
        "sub": user.id.to_string(),
        "iat": token.created_at.timestamp(),
        "exp": token.expires_at.timestamp(),
    }))
}

/// `GET /oauth/token/info`: information about the token in the request.
#[handler]
pub(super) async fn info(request: &Request, Data(backend): Data<&Backend>) -> Response {
    match token_info(request, backend).await {
        Ok(body) => without_caching(json_response(StatusCode::OK, &body)),
        Err(error) => without_caching(failed(&error)),
    }
}

async fn token_info(request: &Request, backend: &Backend) -> Result<Value, Error> {
    let query = parameters::query(request.original_uri().query().unwrap_or_default())?;
    let sent = credentials::read(request, Some(&query), AcceptedCredentials::default());
    let token = sent.token.filter(|_| sent.bearer).ok_or(Error::Unauthorized)?;
    let (token, user) = tokens::find(backend, &token).await?;
    check_account_active(&user)?;
    let application = applications::application_of_token(backend, &token).await?;
    let seconds_left = tokens::seconds_left(&token);
    let scopes: Vec<&str> = token.scopes().collect();
    Ok(json!({
        "resource_owner_id": token.user_id,
        "scope": scopes,
        "expires_in": seconds_left,
        "application": { "uid": application.uid },
        "created_at": token.created_at.timestamp(),
        "scopes": scopes,
        "expires_in_seconds": seconds_left,
    }))
}

async fn fields(request: &Request, body: Body) -> Result<Map<String, Value>, OauthError> {
    let unreadable = OauthError::InvalidRequest("the body is too large, or neither a form nor a JSON object");
    let Ok(bytes) = body.into_bytes_limit(FORM_LIMIT).await else {
        return Err(unreadable);
    };
    parameters::body(request, bytes.to_vec(), None)
        .await
        .map_err(|_| unreadable)
}

/// Returns a field that is not empty. Stored texts never contain NUL, which databases reject.
fn text<'a>(sent: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    let text = sent.get(name)?.as_str()?;
    (!text.is_empty() && !text.contains('\0')).then_some(text)
}

/// Returns the application that authenticates by the Basic scheme or in the form.
async fn client(
    request: &Request,
    sent: &Map<String, Value>,
    backend: &Backend,
) -> Result<Application, OauthError> {
    let address = address_key(request);
    let address = address.as_deref();
    if let Some((uid, secret)) = basic(request)? {
        return applications::authenticate(backend, &uid, Some(&secret), address).await;
    }
    let uid = text(sent, "client_id").ok_or(OauthError::InvalidClient)?;
    applications::authenticate(backend, uid, text(sent, "client_secret"), address).await
}

fn basic(request: &Request) -> Result<Option<(String, String)>, OauthError> {
    let Some(value) = request.headers().get(AUTHORIZATION) else {
        return Ok(None);
    };
    let decoded = || {
        let (scheme, encoded) = value.to_str().ok()?.split_once(' ')?;
        let bytes = scheme
            .eq_ignore_ascii_case("basic")
            .then(|| STANDARD.decode(encoded.trim()).ok())??;
        let text = String::from_utf8(bytes).ok()?;
        let (uid, secret) = text.split_once(':')?;
        let part = |part: &str| {
            percent_decode_str(part)
                .decode_utf8()
                .ok()
                .map(|part| part.into_owned())
        };
        Some((part(uid)?, part(secret)?))
    };
    let read = decoded().filter(|(uid, _)| !uid.contains('\0'));
    read.map(Some).ok_or(OauthError::InvalidClient)
}

fn answer(request: &Request, outcome: Result<Value, OauthError>) -> Response {
    let fault = match outcome {
        Ok(body) => return without_caching(json_response(StatusCode::OK, &body)),
        Err(OauthError::Internal(error)) => return without_caching(failed(&error)),
        Err(fault) => fault,
    };
    let body = json!({ "error": fault.code(), "error_description": fault.to_string() });
    let status = match fault {
        OauthError::InvalidClient => StatusCode::UNAUTHORIZED,
        _ => StatusCode::BAD_REQUEST,
    };
    let mut response = json_response(status, &body);
    if status == StatusCode::UNAUTHORIZED && request.headers().contains_key(AUTHORIZATION) {
        let challenge = HeaderValue::from_static("Basic realm=\"Holdfast\"");
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
    without_caching(response)
}

fn failed(error: &Error) -> Response {
    if let Error::Internal(cause) = error {
        tracing::error!(%cause, "OAuth token request failed");
    }
    error_response::render(error)
}

/// Caches must not store tokens.
fn without_caching(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(PRAGMA, HeaderValue::from_static("no-cache"));
    response
}
