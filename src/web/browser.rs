//! Cookies, form tokens and redirects of the server's own pages.
//!
//! A form of a visitor who is not signed in contains a token bound to a cookie, so that other sites cannot send it.
//! Forms of signed-in users contain the CSRF token of the session.

use domain::identity::sessions::{self, ActiveSession, LIFETIME, StartedSession};
use domain::identity::two_factor::requirement::TwoFactorRequirement;
use domain::kernel::Backend;
use domain::kernel::error::Error;
use domain::secrets::{self, Token};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use poem::http::header::{CACHE_CONTROL, LOCATION, RETRY_AFTER, SET_COOKIE};
use poem::http::{HeaderValue, StatusCode};
use poem::{Request, Response};

use crate::api::credentials::{SESSION_COOKIE, sent_cookie};
use crate::api::error_response;
use crate::views::html::escape;
use crate::web::page::document;

/// Cookies that the token of a form is bound to: on HTTP, and on HTTPS. Browsers accept the second only from this host
/// and only over HTTPS, so that neither another host of the domain nor a network attacker can set it.
const FORM_COOKIES: [&str; 2] = ["_service_sign_in", "__Host-_service_sign_in"];
/// Cookie with the secret of a sign-in that waits for a second factor.
pub(super) const PENDING_COOKIE: &str = "_service_pending_sign_in";
/// Default target after signing in.
pub(super) const DEFAULT_TARGET: &str = "/docs";
/// Path of the page for the second factor.
pub(super) const TWO_FACTOR_PATH: &str = "/users/two_factor";
/// Maximum size of a form, in bytes.
pub(super) const FORM_LIMIT: usize = 16 * 1024;

/// Content of a page with forms.
pub(super) struct FormPage<'a> {
    pub(super) status: StatusCode,
    pub(super) title: &'a str,
    pub(super) fault: Option<&'a str>,
    pub(super) content: String,
}

impl FormPage<'_> {
    /// Returns the response.
    pub(super) fn render(&self) -> Response {
        let fault = self.fault.map_or(String::new(), |text| {
            format!("<p role=\"alert\" id=\"fault\">{}</p>\n", escape(text))
        });
        let content = format!("{fault}{}", self.content);
        document(self.status, self.title, &content, "'self'")
    }
}

/// A token for the forms of a visitor who is not signed in.
pub(super) struct FormToken {
    secret: String,
    pub(super) text: String,
}

impl FormToken {
    /// Returns the token of a visitor, or a new one.
    pub(super) fn of(request: &Request, backend: &Backend) -> Self {
        let existing = sent_cookie(request, form_cookie(backend)).filter(|secret| !secret.is_empty());
        let secret = existing.map_or_else(|| Token::generate("").expose().to_owned(), str::to_owned);
        Self {
            text: form_token(&secret),
            secret,
        }
    }

    /// Sets the cookie that the token is bound to.
    pub(super) fn bind(&self, response: &mut Response, backend: &Backend) {
        set_cookie(
            response,
            backend,
            form_cookie(backend),
            &self.secret,
            "Strict",
            3600,
        );
    }
}

/// Returns whether a token that a form contains is that of the visitor.
pub(super) fn is_form_token(request: &Request, backend: &Backend, sent: &str) -> bool {
    sent_cookie(request, form_cookie(backend))
        .is_some_and(|secret| secrets::constant_time_eq(&form_token(secret), sent))
}

/// Returns the name of the cookie for forms.
fn form_cookie(backend: &Backend) -> &'static str {
    let [on_http, on_https] = FORM_COOKIES;
    match is_https(backend) {
        true => on_https,
        false => on_http,
    }
}

fn is_https(backend: &Backend) -> bool {
    backend.instance.base_url.starts_with("https://")
}

/// Returns the form token for a cookie.
fn form_token(secret: &str) -> String {
    secrets::digest(&format!("sign-in form:{secret}"))
}

/// Returns the session of a request.
pub(super) async fn signed_in(request: &Request, backend: &Backend) -> Result<Option<ActiveSession>, Error> {
    match sent_cookie(request, SESSION_COOKIE) {
        Some(secret) => sessions::find(backend, secret).await,
        None => Ok(None),
    }
}

/// Returns the session of a request, even after the grace period for setting up a second factor.
pub(super) async fn signed_in_limited(
    request: &Request,
    backend: &Backend,
) -> Result<Option<ActiveSession>, Error> {
    match sent_cookie(request, SESSION_COOKIE) {
        Some(secret) => sessions::find_limited(backend, secret).await,
        None => Ok(None),
    }
}

/// Returns the response to a successful sign-in. A user who has to set up a second factor is redirected to the page for
/// it.
pub(super) fn start_session(backend: &Backend, started: &StartedSession, goal: &str) -> Response {
    let mut response = match started.requirement {
        TwoFactorRequirement::Met => redirect(goal),
        TwoFactorRequirement::Grace(_) | TwoFactorRequirement::Overdue(_) => {
            redirect(&with_return(TWO_FACTOR_PATH, goal))
        }
    };
    let seconds = LIFETIME.num_seconds();
    set_cookie(
        &mut response,
        backend,
        SESSION_COOKIE,
        started.secret.expose(),
        "Lax",
        seconds,
    );
    for name in [form_cookie(backend), PENDING_COOKIE] {
        set_cookie(&mut response, backend, name, "", "Strict", 0);
    }
    response
}

/// Returns the requested target if it is a path on this server, else the default.
pub(super) fn local_path(requested: Option<&str>) -> &str {
    let is_local = |path: &&str| {
        path.starts_with('/')
            && !path.starts_with("//")
            && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
    };
    requested.filter(is_local).unwrap_or(DEFAULT_TARGET)
}

/// Returns the path of a page that leads to a target afterwards.
pub(super) fn with_return(path: &str, goal: &str) -> String {
    format!("{path}?return_to={}", utf8_percent_encode(goal, NON_ALPHANUMERIC))
}

/// Redirects the browser with a GET.
pub(super) fn redirect(path: &str) -> Response {
    let mut response = Response::builder().status(StatusCode::SEE_OTHER).finish();
    let location = HeaderValue::from_str(path).unwrap_or(HeaderValue::from_static(DEFAULT_TARGET));
    response.headers_mut().insert(LOCATION, location);
    response
        .headers_mut()
        .insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Sets a cookie; zero seconds delete it.
pub(super) fn set_cookie(
    response: &mut Response,
    backend: &Backend,
    name: &str,
    value: &str,
    same_site: &str,
    seconds: i64,
) {
    let secure = match is_https(backend) {
        true => "; Secure",
        false => "",
    };
    let text = format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite={same_site}{secure}");
    if let Ok(text) = HeaderValue::from_str(&text) {
        response.headers_mut().append(SET_COOKIE, text);
    }
}

/// Error text of a form that was sent with a wrong token.
pub(super) const FOREIGN_FORM: &str = "The form has expired or belongs to another session. Try again.";

/// An error that a page displays.
pub(super) struct DisplayedError {
    pub(super) status: StatusCode,
    pub(super) text: String,
    /// Seconds after which a request is accepted.
    pub(super) retry_after: Option<u64>,
}

/// Returns how a page displays an error, or the error if it is no fault of the visitor. `subject` is the name of an
/// invalid attribute in a sentence.
pub(super) fn displayed(
    error: Error,
    subject: impl Fn(&str) -> &'static str,
) -> Result<DisplayedError, Error> {
    let (status, text, retry_after) = match error {
        Error::BySetting { error, .. } => return displayed(*error, subject),
        Error::Forbidden(reason) => {
            let reason = reason.unwrap_or("This account is not allowed to sign in.".into());
            (StatusCode::FORBIDDEN, reason.into_owned(), None)
        }
        Error::InvalidAttributes(errors) => {
            let sentences = errors.iter().flat_map(|(name, texts)| {
                let subject = subject(name);
                texts.iter().map(move |text| format!("{subject} {text}."))
            });
            let text = sentences.collect::<Vec<_>>().join(" ");
            (StatusCode::UNPROCESSABLE_ENTITY, text, None)
        }
        Error::Rejected(text) | Error::Conflict(text) => {
            (StatusCode::UNPROCESSABLE_ENTITY, format!("{text}."), None)
        }
        Error::RateLimited(seconds) => {
            let text = "Too many failed attempts. Try again later.".to_owned();
            (StatusCode::TOO_MANY_REQUESTS, text, Some(seconds))
        }
        other => return Err(other),
    };
    Ok(DisplayedError {
        status,
        text,
        retry_after,
    })
}

/// Adds the seconds after which a request is accepted.
pub(super) fn set_retry_after(response: &mut Response, seconds: Option<u64>) {
    if let Some(seconds) = seconds {
        response
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
}

pub(super) fn failed(error: &Error) -> Response {
    if let Error::Internal(cause) = error {
        tracing::error!(%cause, "failed to sign a user in or out");
    }
    error_response::render(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn return_path_must_be_local() {
        assert_eq!(local_path(Some("/docs?x=1#y")), "/docs?x=1#y");
        for bad in [
            "",
            "docs",
            "//evil.example",
            "/\\evil.example",
            "https://evil.example",
            "/a\r\nSet-Cookie: x",
            "/a b",
            "javascript:alert(1)",
        ] {
            assert_eq!(local_path(Some(bad)), DEFAULT_TARGET, "{bad}");
        }
        assert_eq!(local_path(None), DEFAULT_TARGET);
    }
}
