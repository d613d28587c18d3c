//! Page where a signed-in user sets up and removes the second factor.
//!
//! The page also accepts sessions after the grace period, when they are limited to this page and signing out.

use domain::audit::Actor;
use domain::identity::sessions::ActiveSession;
use domain::identity::two_factor::enrollment::{self, TwoFactorSetup, TwoFactorStatus};
use domain::kernel::Backend;
use domain::kernel::error::Error;
use domain::secrets::{Secret, constant_time_eq};
use poem::http::StatusCode;
use poem::web::{Data, Form, Query};
use poem::{Request, Response, handler};
use qrcode::QrCode;
use qrcode::render::svg;
use serde::Deserialize;

use crate::api::client_address::client_ip;
use crate::api::credentials::{SESSION_COOKIE, sent_cookie};
use crate::views::html::escape;
use crate::web::browser::{
    FOREIGN_FORM, FormPage, TWO_FACTOR_PATH, displayed, failed, local_path, redirect, set_retry_after,
    signed_in_limited, with_return,
};

/// Title of the page.
const TITLE: &str = "Two-factor authentication";

#[derive(Debug, Default, Deserialize)]
pub(super) struct RedirectQuery {
    return_to: Option<String>,
}

/// All fields that a form of the page can have.
#[derive(Deserialize)]
pub(super) struct TwoFactorForm {
    #[serde(default)]
    current_password: String,
    #[serde(default)]
    code: String,
    #[serde(default)]
    authenticity_token: String,
    return_to: Option<String>,
}

/// A signed-in visitor.
struct Visitor<'a> {
    backend: &'a Backend,
    session: ActiveSession,
    /// Target after the setup.
    goal: &'a str,
}

/// Shows the second factor of the user, and the forms to change it.
#[handler]
pub(super) async fn show(
    request: &Request,
    destination: Query<RedirectQuery>,
    Data(backend): Data<&Backend>,
) -> Response {
    let goal = local_path(destination.0.return_to.as_deref());
    match visitor(request, backend, goal).await {
        Ok(visitor) => visitor.overview(None).await,
        Err(response) => *response,
    }
}

/// Starts the setup and shows the secret.
#[handler]
pub(super) async fn start(
    request: &Request,
    typed: Form<TwoFactorForm>,
    Data(backend): Data<&Backend>,
) -> Response {
    let visitor = match sender(request, backend, &typed).await {
        Ok(visitor) => visitor,
        Err(response) => return *response,
    };
    let password = typed.0.current_password.clone();
    match enrollment::start(backend, &visitor.actor(request), &visitor.session.user, password).await {
        Ok(setup) => visitor.secret_page(&setup),
        Err(error) => visitor.overview(Some(error)).await,
    }
}

/// Enables the second factor and shows the recovery codes.
#[handler]
pub(super) async fn confirm(
    request: &Request,
    typed: Form<TwoFactorForm>,
    Data(backend): Data<&Backend>,
) -> Response {
    let visitor = match sender(request, backend, &typed).await {
        Ok(visitor) => visitor,
        Err(response) => return *response,
    };
    let current = sent_cookie(request, SESSION_COOKIE);
    match enrollment::confirm(
        backend,
        &visitor.actor(request),
        &visitor.session.user,
        &typed.0.code,
        current,
    )
    .await
    {
        Ok(codes) => visitor.codes_page(&codes),
        Err(error @ Error::InvalidAttributes(_)) => visitor.code_page(error),
        Err(error) => visitor.overview(Some(error)).await,
    }
}

/// Replaces the recovery codes and shows the new ones.
#[handler]
pub(super) async fn replace_recovery_codes(
    request: &Request,
    typed: Form<TwoFactorForm>,
    Data(backend): Data<&Backend>,
) -> Response {
    let visitor = match sender(request, backend, &typed).await {
        Ok(visitor) => visitor,
        Err(response) => return *response,
    };
    match enrollment::replace_recovery_codes(
        backend,
        &visitor.actor(request),
        &visitor.session.user,
        &typed.0.code,
    )
    .await
    {
        Ok(codes) => visitor.codes_page(&codes),
        Err(error) => visitor.overview(Some(error)).await,
    }
}

/// Removes the second factor.
#[handler]
pub(super) async fn disable(
    request: &Request,
    typed: Form<TwoFactorForm>,
    Data(backend): Data<&Backend>,
) -> Response {
    let visitor = match sender(request, backend, &typed).await {
        Ok(visitor) => visitor,
        Err(response) => return *response,
    };
    let current = sent_cookie(request, SESSION_COOKIE);
    match enrollment::disable(
        backend,
        &visitor.actor(request),
        &visitor.session.user,
        &typed.0.code,
        current,
    )
    .await
    {
        Ok(()) => redirect(TWO_FACTOR_PATH),
        Err(error) => visitor.overview(Some(error)).await,
    }
}

/// Returns the visitor, or redirects a visitor who is not signed in to the sign-in page.
async fn visitor<'a>(
    request: &Request,
    backend: &'a Backend,
    goal: &'a str,
) -> Result<Visitor<'a>, Box<Response>> {
    match signed_in_limited(request, backend).await {
        Ok(Some(session)) => Ok(Visitor {
            backend,
            session,
            goal,
        }),
        Err(error) if !error.is_forbidden() => Err(Box::new(failed(&error))),
        Ok(None) | Err(_) => Err(Box::new(redirect(&with_return(
            "/users/sign_in",
            TWO_FACTOR_PATH,
        )))),
    }
}

/// Returns the visitor who sent a form of the page.
async fn sender<'a>(
    request: &Request,
    backend: &'a Backend,
    typed: &'a Form<TwoFactorForm>,
) -> Result<Visitor<'a>, Box<Response>> {
    let goal = local_path(typed.0.return_to.as_deref());
    let visitor = visitor(request, backend, goal).await?;
    if constant_time_eq(&typed.0.authenticity_token, &visitor.session.csrf_token) {
        return Ok(visitor);
    }
    let error = Error::forbidden_because(FOREIGN_FORM);
    Err(Box::new(visitor.overview(Some(error)).await))
}

impl Visitor<'_> {
    /// Returns the author of audit events.
    fn actor(&self, request: &Request) -> Actor {
        Actor::user(&self.session.user, client_ip(request))
    }

    /// Returns the page with the current state, and the error of the last change.
    async fn overview(&self, error: Option<Error>) -> Response {
        let found = enrollment::status(self.backend, &self.session.user).await;
        let content = match found {
            Ok(status) if status.enabled_at.is_some() => self.enabled_content(&status),
            Ok(status) => self.disabled_content(&status),
            Err(error) => return failed(&error),
        };
        self.page(content, error)
    }

    fn page(&self, content: String, error: Option<Error>) -> Response {
        let subject = |attribute: &str| match attribute {
            "current_password" => "The current password",
            _ => "The code",
        };
        let shown = match error.map(|error| displayed(error, subject)).transpose() {
            Ok(shown) => shown,
            Err(error) => return failed(&error),
        };
        let page = FormPage {
            status: shown.as_ref().map_or(StatusCode::OK, |shown| shown.status),
            title: TITLE,
            fault: shown.as_ref().map(|shown| shown.text.as_str()),
            content,
        };
        let mut response = page.render();
        set_retry_after(&mut response, shown.as_ref().and_then(|shown| shown.retry_after));
        response
    }

    fn enabled_content(&self, status: &TwoFactorStatus) -> String {
        format!(
            "<p>Two-factor authentication is enabled. Unused recovery codes: {left}.</p>\n\
             <h2>New recovery codes</h2>\n{replace}<h2>Disable</h2>\n{disable}",
            left = status.recovery_codes_left,
            replace = self.form(
                "/recovery_codes",
                &code_field("recovery_code", "Code or recovery code"),
                "Create recovery codes"
            ),
            disable = self.form(
                "/disable",
                &code_field("disable_code", "Code or recovery code"),
                "Disable two-factor authentication"
            ),
        )
    }

    fn disabled_content(&self, status: &TwoFactorStatus) -> String {
        let notice = match status.grace_period_ends_at {
            Some(_) if status.is_overdue() => {
                "<p>You have to set up two-factor authentication before you continue.</p>\n".to_owned()
            }
            Some(end) => format!(
                "<p>You have to set up two-factor authentication by {}.</p>\n\
                 <p><a href=\"{}\">Set up later</a></p>\n",
                end.format("%Y-%m-%d %H:%M UTC"),
                escape(self.goal)
            ),
            None => String::new(),
        };
        format!("{notice}{}", self.password_form())
    }

    fn password_form(&self) -> String {
        let field = "<label for=\"current_password\">Current password</label>\n\
                     <input id=\"current_password\" name=\"current_password\" type=\"password\" \
                     autocomplete=\"current-password\" maxlength=\"128\" required>\n";
        self.form("", field, "Set up two-factor authentication")
    }

    fn secret_page(&self, setup: &TwoFactorSetup) -> Response {
        let secret: String = setup
            .secret
            .expose()
            .chars()
            .enumerate()
            .flat_map(|(position, char)| {
                let space = (position > 0 && position % 4 == 0).then_some(' ');
                space.into_iter().chain([char])
            })
            .collect();
        let content = format!(
            "<p>Scan the code with an authenticator app, or enter the secret in the app.</p>\n{image}\
             <p><code id=\"secret\">{secret}</code></p>\n{form}",
            image = qr_code(setup.uri.expose()),
            form = self.code_form(),
        );
        self.page(content, None)
    }

    /// Returns the page after a wrong code. The app already has the secret, so the page does not contain it.
    fn code_page(&self, error: Error) -> Response {
        let content = format!(
            "{}<h2>Start again</h2>\n{}",
            self.code_form(),
            self.password_form()
        );
        self.page(content, Some(error))
    }

    fn code_form(&self) -> String {
        let field = code_field("code", "Code that the app displays");
        self.form("/confirm", &field, "Enable two-factor authentication")
    }

    fn codes_page(&self, codes: &[Secret<String>]) -> Response {
        let codes: String = codes
            .iter()
            .map(|code| format!("<li><code>{}</code></li>\n", escape(code.expose())))
            .collect();
        let content = format!(
            "<p>Two-factor authentication is enabled. Store these recovery codes in a safe place. You can use \
             each of them once, instead of a code of the app. They are displayed only now.</p>\n<ul>\n{codes}</ul>\n\
             <p><a href=\"{}\">Continue</a></p>\n",
            escape(self.goal)
        );
        self.page(content, None)
    }

    /// Returns a form that is sent to a path below the page.
    fn form(&self, path: &str, fields: &str, button: &str) -> String {
        format!(
            "<form method=\"post\" action=\"{TWO_FACTOR_PATH}{path}\">\n\
             <input type=\"hidden\" name=\"authenticity_token\" value=\"{token}\">\n\
             <input type=\"hidden\" name=\"return_to\" value=\"{goal}\">\n\
             {fields}<button type=\"submit\">{button}</button>\n</form>\n",
            token = self.session.csrf_token,
            goal = escape(self.goal),
        )
    }
}

fn code_field(id: &str, label: &str) -> String {
    format!(
        "<label for=\"{id}\">{label}</label>\n\
         <input id=\"{id}\" name=\"code\" type=\"text\" autocomplete=\"one-time-code\" autocapitalize=\"none\" \
         spellcheck=\"false\" maxlength=\"64\" required>\n"
    )
}

/// Returns a URI as an image, or nothing if it is too long: users can also enter the secret.
fn qr_code(uri: &str) -> String {
    let Ok(code) = QrCode::new(uri) else {
        return String::new();
    };
    let image = code.render::<svg::Color<'_>>().min_dimensions(220, 220).build();
    // The XML declaration before the element is valid only in a separate document.
    let element = image.find("<svg").map_or("", |position| &image[position..]);
    format!("<div role=\"img\" aria-label=\"QR code of the secret\">{element}</div>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qr_code_is_an_inline_image_with_a_name() {
        let uri = "otpauth://totp/git.example.com:ada?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=git.example.com";
        let image = qr_code(uri);
        assert!(
            image.starts_with("<div role=\"img\" aria-label=\"QR code of the secret\"><svg "),
            "{image}"
        );
        assert!(!image.contains("<?xml") && !image.contains("href"), "{image}");
        assert_eq!(qr_code(&"a".repeat(10_000)), "");
    }
}
