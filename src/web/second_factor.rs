//! Second step of signing in: a code of the authenticator app, or a recovery code.

use domain::identity::sessions::{self, SecondFactorAttempt, SignInOutcome};
use domain::kernel::Backend;
use poem::http::StatusCode;
use poem::web::{Data, Form, Query};
use poem::{Request, Response, handler};
use serde::Deserialize;

use crate::api::client_address::{address_key, client_ip};
use crate::api::credentials::{SESSION_COOKIE, sent_cookie};
use crate::views::html::escape;
use crate::web::browser::{
    FOREIGN_FORM, FormPage, FormToken, PENDING_COOKIE, displayed, failed, is_form_token, local_path,
    redirect, set_retry_after, start_session, with_return,
};

#[derive(Debug, Default, Deserialize)]
pub(super) struct RedirectQuery {
    return_to: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct CodeForm {
    #[serde(default)]
    code: String,
    #[serde(default)]
    authenticity_token: String,
    return_to: Option<String>,
}

/// Returns the form, or redirects to the first step if no sign-in waits for a code.
#[handler]
pub(super) async fn show(
    request: &Request,
    destination: Query<RedirectQuery>,
    Data(backend): Data<&Backend>,
) -> Response {
    let goal = local_path(destination.0.return_to.as_deref());
    let pending = sent_cookie(request, PENDING_COOKIE).unwrap_or_default();
    match sessions::is_pending(backend, pending).await {
        Ok(true) => page(request, backend, StatusCode::OK, None, goal),
        Ok(false) => redirect(&with_return("/users/sign_in", goal)),
        Err(error) => failed(&error),
    }
}

/// Checks the code and starts the session.
#[handler]
pub(super) async fn submit(
    request: &Request,
    typed: Form<CodeForm>,
    Data(backend): Data<&Backend>,
) -> Response {
    let typed = typed.0;
    let goal = local_path(typed.return_to.as_deref());
    let rejection_page = |status, fault: &str| page(request, backend, status, Some(fault), goal);
    if !is_form_token(request, backend, &typed.authenticity_token) {
        return rejection_page(StatusCode::FORBIDDEN, FOREIGN_FORM);
    }
    let cookie = |name| sent_cookie(request, name).map(str::to_owned);
    let attempt = SecondFactorAttempt {
        pending: cookie(PENDING_COOKIE).unwrap_or_default(),
        code: typed.code,
        address: address_key(request),
        ip_address: client_ip(request),
        replaces: cookie(SESSION_COOKIE),
    };
    match sessions::confirm(backend, attempt).await {
        Ok(SignInOutcome::SignedIn(started)) => start_session(backend, &started, goal),
        Ok(SignInOutcome::Wrong) => {
            let text = "The code is wrong, expired or was used before. Enter the next code.";
            rejection_page(StatusCode::UNPROCESSABLE_ENTITY, text)
        }
        Ok(_) => redirect(&with_return("/users/sign_in", goal)),
        Err(error) => match displayed(error, |_| "The code") {
            Ok(shown) => {
                let mut response = rejection_page(shown.status, &shown.text);
                set_retry_after(&mut response, shown.retry_after);
                response
            }
            Err(error) => failed(&error),
        },
    }
}

fn page(
    request: &Request,
    backend: &Backend,
    status: StatusCode,
    fault: Option<&str>,
    goal: &str,
) -> Response {
    let token = FormToken::of(request, backend);
    let content = format!(
        "<form method=\"post\" action=\"/users/sign_in/code\">\n\
         <input type=\"hidden\" name=\"authenticity_token\" value=\"{token}\">\n\
         <input type=\"hidden\" name=\"return_to\" value=\"{goal}\">\n\
         <label for=\"code\">Code from your authenticator app, or a recovery code</label>\n\
         <input id=\"code\" name=\"code\" type=\"text\" autocomplete=\"one-time-code\" autocapitalize=\"none\" \
         spellcheck=\"false\" maxlength=\"64\" required autofocus>\n\
         <button type=\"submit\">Sign in</button>\n</form>\n",
        token = token.text,
        goal = escape(goal),
    );
    let page = FormPage {
        status,
        title: "Two-factor authentication",
        fault,
        content,
    };
    let mut response = page.render();
    token.bind(&mut response, backend);
    response
}
