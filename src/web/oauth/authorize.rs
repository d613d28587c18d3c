//! The page where a user authorizes an application.

use domain::identity::oauth::authorization::{
    self, AuthorizationError, AuthorizationRequest, ConsentRequest,
};
use domain::identity::sessions::ActiveSession;
use domain::kernel::Backend;
use domain::kernel::error::Error;
use domain::secrets::constant_time_eq;
use poem::http::StatusCode;
use poem::web::Data;
use poem::{Body, Request, Response, handler};
use serde_json::{Map, Value};

use super::FORM_LIMIT;
use crate::api::client_address::client_ip;
use crate::api::{error_response, parameters};
use crate::views::html::escape;
use crate::web::browser::{redirect, signed_in, with_return};
use crate::web::page::document;

/// Parameters of a request; the form repeats them, and they are checked again.
const PARAMETERS: [&str; 7] = [
    "client_id",
    "redirect_uri",
    "response_type",
    "scope",
    "state",
    "code_challenge",
    "code_challenge_method",
];

/// Shows the page; the user must sign in first.
#[handler]
pub(super) async fn show(request: &Request, Data(backend): Data<&Backend>) -> Response {
    let raw = request.original_uri().query().unwrap_or_default();
    let Ok(sent) = parameters::query(raw) else {
        return error_page(
            StatusCode::BAD_REQUEST,
            "The request of the application is malformed.",
        );
    };
    let session = match signed_in(request, backend).await {
        Ok(Some(session)) => session,
        Ok(None) => {
            let goal = format!("/oauth/authorize?{raw}");
            return redirect(&with_return("/users/sign_in", &goal));
        }
        Err(error) => return failed(&error),
    };
    match authorization::check(backend, request_of(&sent)).await {
        Ok(question) => consent_page(&question, &session, &sent),
        Err(error) => authorization_error(error),
    }
}

/// Handles the user's decision.
#[handler]
pub(super) async fn decide(request: &Request, body: Body, Data(backend): Data<&Backend>) -> Response {
    let unreadable = || error_page(StatusCode::BAD_REQUEST, "The form is malformed.");
    let Ok(bytes) = body.into_bytes_limit(FORM_LIMIT).await else {
        return unreadable();
    };
    let Ok(sent) = parameters::body(request, bytes.to_vec(), None).await else {
        return unreadable();
    };
    let session = match signed_in(request, backend).await {
        Ok(Some(session)) => session,
        Ok(None) => {
            return error_page(
                StatusCode::UNAUTHORIZED,
                "Your session has ended. Sign in and try again.",
            );
        }
        Err(error) => return failed(&error),
    };
    let token = text(&sent, "authenticity_token").unwrap_or_default();
    if !constant_time_eq(&token, &session.csrf_token) {
        let fault = "The form has expired or belongs to another session. Go back to the application and \
                     try again.";
        return error_page(StatusCode::FORBIDDEN, fault);
    }
    let question = match authorization::check(backend, request_of(&sent)).await {
        Ok(question) => question,
        Err(error) => return authorization_error(error),
    };
    if text(&sent, "decision").as_deref() != Some("authorize") {
        return redirect(&authorization::deny(&question));
    }
    match authorization::approve(backend, &session.user, client_ip(request), &question).await {
        Ok(address) => redirect(&address),
        Err(error) => failed(&error),
    }
}

fn text(sent: &Map<String, Value>, name: &str) -> Option<String> {
    sent.get(name)?.as_str().map(str::to_owned)
}

fn request_of(sent: &Map<String, Value>) -> AuthorizationRequest {
    let filled = |name: &str| text(sent, name).filter(|text| !text.is_empty());
    AuthorizationRequest {
        client_id: filled("client_id"),
        redirect_uri: filled("redirect_uri"),
        response_type: filled("response_type"),
        scope: filled("scope"),
        state: text(sent, "state"),
        code_challenge: filled("code_challenge"),
        code_challenge_method: filled("code_challenge_method"),
    }
}

fn authorization_error(error: AuthorizationError) -> Response {
    match error {
        AuthorizationError::Displayed(fault) => error_page(StatusCode::BAD_REQUEST, fault),
        AuthorizationError::Redirected(address) => redirect(&address),
        AuthorizationError::Internal(error) => failed(&error),
    }
}

fn error_page(status: StatusCode, fault: &str) -> Response {
    let content = format!("<p role=\"alert\" id=\"fault\">{}</p>\n", escape(fault));
    document(status, "Authorization", &content, "'none'")
}

fn failed(error: &Error) -> Response {
    match error.split_setting().1 {
        Error::Forbidden(reason) => {
            let reason = reason
                .as_deref()
                .unwrap_or("This account is not allowed to sign in.");
            error_page(StatusCode::FORBIDDEN, reason)
        }
        Error::Internal(cause) => {
            tracing::error!(%cause, "failed to authorize an application");
            error_response::render(error)
        }
        other => error_response::render(other),
    }
}

fn consent_page(question: &ConsentRequest, session: &ActiveSession, sent: &Map<String, Value>) -> Response {
    let scopes: String = question
        .scopes
        .split(' ')
        .map(|scope| {
            format!(
                "<li><code>{}</code>: {}</li>\n",
                escape(scope),
                scope_description(scope)
            )
        })
        .collect();
    let hidden: String = PARAMETERS
        .iter()
        .filter_map(|name| Some((name, text(sent, name)?)))
        .map(|(name, value)| {
            format!(
                "<input type=\"hidden\" name=\"{name}\" value=\"{}\">\n",
                escape(&value)
            )
        })
        .collect();
    let content = format!(
        "<p><strong>{application}</strong> wants to act as <strong>{user}</strong> on this server, and to:</p>\n\
         <ul>\n{scopes}</ul>\n<p>You are then redirected to <strong>{target}</strong>.</p>\n\
         <form method=\"post\" action=\"/oauth/authorize\">\n\
         <input type=\"hidden\" name=\"authenticity_token\" value=\"{token}\">\n{hidden}\
         <button type=\"submit\" name=\"decision\" value=\"authorize\">Authorize</button>\n\
         <button type=\"submit\" name=\"decision\" value=\"deny\">Deny</button>\n</form>\n",
        application = escape(&question.application.name),
        user = escape(&session.user.username),
        target = escape(&target(question)),
        token = session.csrf_token,
    );
    // Browsers also apply the policy to the redirect in the response to the form.
    let form_action = format!("'self' {}", target(question));
    document(StatusCode::OK, "Authorization", &content, &form_action)
}

/// Returns the origin of the redirect, or the scheme of an application on the user's device.
fn target(question: &ConsentRequest) -> String {
    let origin = question.redirect_uri.origin();
    if origin.is_tuple() {
        origin.ascii_serialization()
    } else {
        format!("{}:", question.redirect_uri.scheme())
    }
}

fn scope_description(scope: &str) -> &'static str {
    match scope {
        "api" => "read and write everything that you have access to",
        "read_api" => "read everything that you have access to",
        "read_user" => "read your account",
        "read_repository" => "read your repositories",
        "write_repository" => "read and write your repositories",
        "read_registry" => "read your container images",
        "write_registry" => "write your container images",
        "sudo" => "act as any other user, if you are an administrator",
        _ => "",
    }
}
