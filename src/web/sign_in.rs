//! Browser pages for signing in and out.
//!
//! The page has no external resources and no scripts.

use domain::identity::sessions::{self, PENDING_LIFETIME, SignInAttempt, SignInOutcome};
use domain::kernel::Backend;
use domain::kernel::error::Error;
use domain::secrets;
use poem::http::header::CACHE_CONTROL;
use poem::http::{HeaderValue, StatusCode};
use poem::web::{Data, Form, Query};
use poem::{Body, Endpoint, EndpointExt, Request, Response, Route, get, handler, post};
use serde::Deserialize;
use serde_json::json;

use crate::api::client_address::{address_key, client_ip};
use crate::api::credentials::{CSRF_HEADER, SESSION_COOKIE, sent_cookie};
use crate::api::{error_response, parameters};
use crate::views::html::escape;
use crate::web::browser::{
    FOREIGN_FORM, FORM_LIMIT, FormPage, FormToken, PENDING_COOKIE, displayed, failed, is_form_token,
    local_path, redirect, set_cookie, set_retry_after, signed_in, signed_in_limited, start_session,
    with_return,
};
use crate::web::{second_factor, two_factor};

/// The routes below `/users`.
pub fn routes(backend: &Backend) -> impl Endpoint<Output = Response> + use<> {
    Route::new()
        .at("/sign_in", get(show).post(submit.before(with_limited_form)))
        .at(
            "/sign_in/code",
            get(second_factor::show).post(second_factor::submit.before(with_limited_form)),
        )
        .at("/sign_out", post(sign_out))
        .at(
            "/two_factor",
            get(two_factor::show).post(two_factor::start.before(with_limited_form)),
        )
        .at(
            "/two_factor/confirm",
            post(two_factor::confirm.before(with_limited_form)),
        )
        .at(
            "/two_factor/recovery_codes",
            post(two_factor::replace_recovery_codes.before(with_limited_form)),
        )
        .at(
            "/two_factor/disable",
            post(two_factor::disable.before(with_limited_form)),
        )
        .data(backend.clone())
        .map_to_response()
}

/// Reads the form of a request, which clients of HTTP/2 may send without its length.
///
/// # Errors
/// If the form is too large or does not arrive.
async fn with_limited_form(mut request: Request) -> poem::Result<Request> {
    let form = request.take_body().into_bytes_limit(FORM_LIMIT).await?;
    request.set_body(form);
    Ok(request)
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
        Err(error) if !error.is_forbidden() => failed(&error),
        Ok(None) | Err(_) => page(
            request,
            backend,
            &SignInPage {
                return_to: goal,
                ..SignInPage::default()
            },
        ),
    }
}

#[handler]
async fn submit(request: &Request, typed: Form<SignInForm>, Data(backend): Data<&Backend>) -> Response {
    let typed = typed.0;
    let goal = local_path(typed.return_to.as_deref());
    let rejection_page = |status, fault: &str, asks_new_password| {
        page(
            request,
            backend,
            &SignInPage {
                status,
                fault: Some(fault),
                asks_new_password,
                login: &typed.login,
                return_to: goal,
            },
        )
    };
    if !is_form_token(request, backend, &typed.authenticity_token) {
        return rejection_page(StatusCode::FORBIDDEN, FOREIGN_FORM, false);
    }
    let attempt = SignInAttempt {
        login: typed.login.trim().to_owned(),
        password: typed.password,
        new_password: typed.new_password.filter(|password| !password.is_empty()),
        address: address_key(request),
        ip_address: client_ip(request),
        replaces: sent_cookie(request, SESSION_COOKIE).map(str::to_owned),
    };
    match sessions::sign_in(backend, attempt).await {
        Ok(SignInOutcome::SignedIn(started)) => start_session(backend, &started, goal),
        Ok(SignInOutcome::SecondFactorRequired(pending)) => {
            let mut response = redirect(&with_return("/users/sign_in/code", goal));
            let seconds = PENDING_LIFETIME.num_seconds();
            set_cookie(
                &mut response,
                backend,
                PENDING_COOKIE,
                pending.expose(),
                "Strict",
                seconds,
            );
            response
        }
        Ok(SignInOutcome::Wrong | SignInOutcome::Expired) => rejection_page(
            StatusCode::UNPROCESSABLE_ENTITY,
            "Invalid login or password.",
            false,
        ),
        Ok(SignInOutcome::PasswordChangeRequired) => rejection_page(
            StatusCode::UNPROCESSABLE_ENTITY,
            "The password must be changed. Enter the current password and a new one.",
            true,
        ),
        Err(error) => {
            let asks_new_password = matches!(error, Error::InvalidAttributes(_));
            match displayed(error, |_| "The new password") {
                Ok(shown) => {
                    let mut response = rejection_page(shown.status, &shown.text, asks_new_password);
                    set_retry_after(&mut response, shown.retry_after);
                    response
                }
                Err(error) => failed(&error),
            }
        }
    }
}

#[handler]
async fn sign_out(request: &Request, body: Body, Data(backend): Data<&Backend>) -> Response {
    let secret = sent_cookie(request, SESSION_COOKIE);
    let found = match signed_in_limited(request, backend).await {
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
        if let Err(error) = sessions::delete(backend, secret, &session.user, client_ip(request)).await {
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

#[derive(Debug, Default, Deserialize)]
struct SessionQuery {
    #[serde(default)]
    optional: bool,
}

/// Returns the signed-in user, and the CSRF token for writes with the session. With `optional=true`, the response
/// without a session is null values instead of 401, which browsers log as an error.
#[handler]
async fn current_session(
    request: &Request,
    query: Option<Query<SessionQuery>>,
    Data(backend): Data<&Backend>,
) -> Response {
    let is_optional = query.is_some_and(|query| query.0.optional);
    let mut response = match signed_in(request, backend).await {
        Ok(Some(session)) => {
            let user = session.user;
            let user = json!({ "id": user.id, "username": user.username, "name": user.name });
            let body = json!({ "user": user, "csrf_token": session.csrf_token });
            error_response::json_response(StatusCode::OK, &body)
        }
        Ok(None) if is_optional => {
            let body = json!({ "user": null, "csrf_token": null });
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

/// Returns the page with a form token.
fn page(request: &Request, backend: &Backend, shown: &SignInPage<'_>) -> Response {
    let token = FormToken::of(request, backend);
    let page = FormPage {
        status: shown.status,
        title: "Sign in",
        fault: shown.fault,
        content: render(shown, &token.text),
    };
    let mut response = page.render();
    token.bind(&mut response, backend);
    response
}

fn render(shown: &SignInPage<'_>, token: &str) -> String {
    let new_password = match shown.asks_new_password {
        true => {
            "<label for=\"new_password\">New password</label>\n<input id=\"new_password\" name=\"new_password\" \
             type=\"password\" autocomplete=\"new-password\" minlength=\"8\" maxlength=\"128\" required>\n"
        }
        false => "",
    };
    format!(
        "<form method=\"post\" action=\"/users/sign_in\">\n\
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
    fn sign_in_page_escapes_submitted_login() {
        let shown = SignInPage {
            login: "\"><script>alert('1')</script>",
            return_to: "/docs",
            ..SignInPage::default()
        };
        let page = render(&shown, "token");
        assert!(!page.contains("<script") && page.contains("&quot;&gt;&lt;script&gt;"));
    }
}
