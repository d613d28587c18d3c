//! Browser pages for signing in and out.
//!
//! The form contains a token bound to a separate cookie, so that other sites cannot sign a visitor in. The page
//! has no external resources and no scripts.

use domain::identity::sessions::{self, ActiveSession, LIFETIME, SignInAttempt, SignInOutcome};
use domain::kernel::Backend;
use domain::kernel::error::Error;
use domain::secrets::{self, Token};
use poem::http::header::{CACHE_CONTROL, COOKIE, LOCATION, RETRY_AFTER, SET_COOKIE};
use poem::http::{HeaderValue, StatusCode};
use poem::middleware::SizeLimit;
use poem::web::{Data, Form, Query};
use poem::{Body, Endpoint, EndpointExt, Request, Response, Route, get, handler, post};
use serde::Deserialize;
use serde_json::json;

use crate::api::client_address::address_key;
use crate::api::credentials::{CSRF_HEADER, SESSION_COOKIE, cookie};
use crate::api::{error_response, parameters};
use crate::views::html::escape;
use crate::web::page::document;

/// Cookie that the form's token is bound to.
const FORM_COOKIE: &str = "_service_sign_in";
/// Default target after signing in.
const DEFAULT_TARGET: &str = "/docs";
/// Maximum size of the form, in bytes.
const FORM_LIMIT: usize = 16 * 1024;

/// The routes below `/users`.
pub fn routes(backend: &Backend) -> impl Endpoint<Output = Response> + use<> {
    // The middleware requires a length, which a GET and an empty form do not have.
    let limit = SizeLimit::new(FORM_LIMIT);
    Route::new()
        .at("/sign_in", get(show).post(submit.with(limit)))
        .at("/sign_out", post(sign_out))
        .data(backend.clone())
        .map_to_response()
}

/// Returns the route `/-/session`, used by the server's own pages.
pub fn session_route(backend: &Backend) -> impl Endpoint<Output = Response> + use<> {
    get(current_session).data(backend.clone()).map_to_response()
}

#[derive(Debug, Default, Deserialize)]
struct RedirectQuery {
    return_to: Option<String>,
}

#[derive(Deserialize)]
struct SignInForm {
    #[serde(default)]
    login: String,
    #[serde(default)]
    password: String,
    new_password: Option<String>,
    #[serde(default)]
    authenticity_token: String,
    return_to: Option<String>,
}

/// Content of the page.
#[derive(Default)]
struct SignInPage<'a> {
    status: StatusCode,
    fault: Option<&'a str>,
    login: &'a str,
    return_to: &'a str,
    asks_new_password: bool,
}

#[handler]
async fn show(
    request: &Request,
    destination: Query<RedirectQuery>,
    Data(backend): Data<&Backend>,
) -> Response {
    let goal = local_path(destination.0.return_to.as_deref());
    match signed_in(request, backend).await {
        Ok(Some(_)) => redirect(goal),
        Ok(None) | Err(Error::Forbidden(_)) => page(
            request,
            backend,
            &SignInPage {
                return_to: goal,
                ..SignInPage::default()
            },
        ),
        Err(error) => failed(&error),
    }
}

#[handler]
async fn submit(request: &Request, typed: Form<SignInForm>, Data(backend): Data<&Backend>) -> Response {
    let typed = typed.0;
    let goal = local_path(typed.return_to.as_deref());
    let shown = SignInPage {
        login: &typed.login,
        return_to: goal,
        ..SignInPage::default()
    };
    let proven = sent_cookie(request, FORM_COOKIE)
        .is_some_and(|secret| secrets::constant_time_eq(&form_token(secret), &typed.authenticity_token));
    if !proven {
        return page(
            request,
            backend,
            &SignInPage {
                status: StatusCode::FORBIDDEN,
                fault: Some("The form has expired or belongs to another session. Try again."),
                ..shown
            },
        );
    }
    let attempt = SignInAttempt {
        login: typed.login.trim().to_owned(),
        password: typed.password,
        new_password: typed.new_password.filter(|password| !password.is_empty()),
        address: address_key(request),
        replaces: sent_cookie(request, SESSION_COOKIE).map(str::to_owned),
    };
    let rejection_page = |status, fault: &str, asks_new_password| {
        page(
            request,
            backend,
            &SignInPage {
                status,
                fault: Some(fault),
                asks_new_password,
                login: shown.login,
                return_to: goal,
            },
        )
    };
    match sessions::sign_in(backend, attempt).await {
        Ok(SignInOutcome::SignedIn(secret)) => {
            let mut response = redirect(goal);
            let seconds = LIFETIME.num_seconds();
            set_cookie(&mut response, backend, SESSION_COOKIE, &secret, "Lax", seconds);
            set_cookie(&mut response, backend, FORM_COOKIE, "", "Strict", 0);
            response
        }
        Ok(SignInOutcome::Wrong) => rejection_page(
            StatusCode::UNPROCESSABLE_ENTITY,
            "Invalid login or password.",
            false,
        ),
        Ok(SignInOutcome::PasswordChangeRequired) => rejection_page(
            StatusCode::UNPROCESSABLE_ENTITY,
            "The password must be changed. Enter the current password and a new one.",
            true,
        ),
        Err(Error::Forbidden(reason)) => {
            let reason = reason.unwrap_or("This account is not allowed to sign in.".into());
            rejection_page(StatusCode::FORBIDDEN, &reason, false)
        }
        Err(Error::InvalidAttributes(errors)) => {
            let texts: Vec<_> = errors.values().flatten().map(AsRef::as_ref).collect();
            let text = format!("The new password {}.", texts.join(", "));
            rejection_page(StatusCode::UNPROCESSABLE_ENTITY, &text, true)
        }
        Err(Error::RateLimited(seconds)) => {
            let text = "Too many failed attempts. Try again later.";
            let mut response = rejection_page(StatusCode::TOO_MANY_REQUESTS, text, false);
            response
                .headers_mut()
                .insert(RETRY_AFTER, HeaderValue::from(seconds));
            response
        }
        Err(error) => failed(&error),
    }
}

#[handler]
async fn sign_out(request: &Request, body: Body, Data(backend): Data<&Backend>) -> Response {
    let secret = sent_cookie(request, SESSION_COOKIE);
    let found = match signed_in(request, backend).await {
        Ok(found) => found,
        Err(error) => return failed(&error),
    };
    if let (Some(secret), Some(session)) = (secret, found) {
        let sent = request.header(CSRF_HEADER).map(str::to_owned);
        let sent = match sent {
            Some(sent) => Some(sent),
            None => form_field(body, "authenticity_token").await,
        };
        if !sent.is_some_and(|sent| secrets::constant_time_eq(&sent, &session.csrf_token)) {
            return failed(&Error::forbidden_because("the CSRF token is missing or wrong"));
        }
        if let Err(error) = sessions::delete(backend, secret).await {
            return failed(&error);
        }
    }
    let mut response = redirect("/users/sign_in");
    set_cookie(&mut response, backend, SESSION_COOKIE, "", "Lax", 0);
    response
}

/// Returns a field of a form; none if the body is too large or not a form.
async fn form_field(body: Body, name: &str) -> Option<String> {
    let bytes = body.into_bytes_limit(FORM_LIMIT).await.ok()?;
    let fields = parameters::query(std::str::from_utf8(&bytes).ok()?).ok()?;
    fields.get(name)?.as_str().map(str::to_owned)
}

/// Returns the signed-in user, and the CSRF token for writes with the session.
#[handler]
async fn current_session(request: &Request, Data(backend): Data<&Backend>) -> Response {
    let mut response = match signed_in(request, backend).await {
        Ok(Some(session)) => {
            let user = session.user;
            let user = json!({ "id": user.id, "username": user.username, "name": user.name });
            let body = json!({ "user": user, "csrf_token": session.csrf_token });
            error_response::json_response(StatusCode::OK, &body)
        }
        Ok(None) => error_response::render(&Error::Unauthorized),
        Err(error) => failed(&error),
    };
    response
        .headers_mut()
        .insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Returns the session of a request.
pub(super) async fn signed_in(request: &Request, backend: &Backend) -> Result<Option<ActiveSession>, Error> {
    match sent_cookie(request, SESSION_COOKIE) {
        Some(secret) => sessions::find(backend, secret).await,
        None => Ok(None),
    }
}

fn sent_cookie<'a>(request: &'a Request, name: &str) -> Option<&'a str> {
    cookie(request.headers().get(COOKIE)?.to_str().ok()?, name)
}

/// Returns the form token for a cookie.
fn form_token(secret: &str) -> String {
    secrets::digest(&format!("sign-in form:{secret}"))
}

/// Returns the requested target if it is a path on this server, else the default.
fn local_path(requested: Option<&str>) -> &str {
    let is_local = |path: &&str| {
        path.starts_with('/')
            && !path.starts_with("//")
            && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
    };
    requested.filter(is_local).unwrap_or(DEFAULT_TARGET)
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
fn set_cookie(
    response: &mut Response,
    backend: &Backend,
    name: &str,
    value: &str,
    same_site: &str,
    seconds: i64,
) {
    let secure = match backend.instance.base_url.starts_with("https://") {
        true => "; Secure",
        false => "",
    };
    let text = format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite={same_site}{secure}");
    if let Ok(text) = HeaderValue::from_str(&text) {
        response.headers_mut().append(SET_COOKIE, text);
    }
}

fn failed(error: &Error) -> Response {
    if let Error::Internal(cause) = error {
        tracing::error!(%cause, "failed to sign a user in or out");
    }
    error_response::render(error)
}

/// Returns the page with a new form token.
fn page(request: &Request, backend: &Backend, shown: &SignInPage<'_>) -> Response {
    let existing = sent_cookie(request, FORM_COOKIE).filter(|secret| !secret.is_empty());
    let secret = existing.map_or_else(|| Token::generate("").expose().to_owned(), str::to_owned);
    let body = render(shown, &form_token(&secret));
    let mut response = document(shown.status, "Sign in", &body, "'self'");
    set_cookie(&mut response, backend, FORM_COOKIE, &secret, "Strict", 3600);
    response
}

fn render(shown: &SignInPage<'_>, token: &str) -> String {
    let fault = shown.fault.map_or(String::new(), |text| {
        format!("<p role=\"alert\" id=\"fault\">{}</p>\n", escape(text))
    });
    let new_password = match shown.asks_new_password {
        true => {
            "<label for=\"new_password\">New password</label>\n<input id=\"new_password\" name=\"new_password\" \
             type=\"password\" autocomplete=\"new-password\" minlength=\"8\" maxlength=\"128\" required>\n"
        }
        false => "",
    };
    format!(
        "{fault}<form method=\"post\" action=\"/users/sign_in\">\n\
         <input type=\"hidden\" name=\"authenticity_token\" value=\"{token}\">\n\
         <input type=\"hidden\" name=\"return_to\" value=\"{goal}\">\n\
         <label for=\"login\">Username or email</label>\n\
         <input id=\"login\" name=\"login\" type=\"text\" value=\"{login}\" autocomplete=\"username\" \
         autocapitalize=\"none\" spellcheck=\"false\" maxlength=\"255\" required autofocus>\n\
         <label for=\"password\">Password</label>\n\
         <input id=\"password\" name=\"password\" type=\"password\" autocomplete=\"current-password\" \
         maxlength=\"128\" required>\n{new_password}<button type=\"submit\">Sign in</button>\n\
         </form>\n",
        goal = escape(shown.return_to),
        login = escape(shown.login),
    )
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

    #[test]
    fn sign_in_page_escapes_submitted_login() {
        let shown = SignInPage {
            login: "\"><script>alert('1')</script>",
            return_to: DEFAULT_TARGET,
            ..SignInPage::default()
        };
        let page = render(&shown, "token");
        assert!(!page.contains("<script") && page.contains("&quot;&gt;&lt;script&gt;"));
    }
}
