//! Registry tokens, for Basic credentials or anonymous clients.

use chrono::SecondsFormat;
use domain::identity::git_access;
use domain::kernel::Backend;
use domain::kernel::error::Result;
use domain::registry::RegistryError;
use domain::registry::tokens::issue;
use poem::http::header::{CACHE_CONTROL, WWW_AUTHENTICATE};
use poem::http::{Method, StatusCode};
use poem::{Request, Response};
use serde_json::json;

use super::{parameters, responses};
use crate::api::request_rate;
use crate::web::git_http;

/// Returns the response to a token request.
pub async fn answer(backend: &Backend, request: &Request) -> Response {
    // Some clients try POST first, and continue with GET if it is not allowed.
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return responses::not_allowed("GET, HEAD");
    }
    match token(backend, request).await {
        Ok(response) => response,
        Err(error) => {
            let mut response = responses::from_error(&RegistryError::Rule(error));
            if response.status() == StatusCode::UNAUTHORIZED {
                responses::set(&mut response, WWW_AUTHENTICATE, "Basic realm=\"Holdfast\"");
            }
            response
        }
    }
}

async fn token(backend: &Backend, request: &Request) -> Result<Response> {
    let identified = git_access::identify(backend, git_http::credentials(request)?).await;
    request_rate::count(request, identified.as_ref().ok())?;
    let caller = identified?;
    request_rate::use_database_share(request, &caller);
    let scopes = parameters(request, "scope");
    let scopes: Vec<&str> = scopes
        .iter()
        .flat_map(|scopes| scopes.split_ascii_whitespace())
        .collect();
    let issued = issue(backend, &caller, &scopes).await?;
    let text = json!({
        "token": issued.token,
        "access_token": issued.token,
        "expires_in": issued.expires_in,
        "issued_at": issued.issued_at.to_rfc3339_opts(SecondsFormat::Secs, true),
    });
    let mut response = responses::document("application/json", text.to_string());
    responses::set(&mut response, CACHE_CONTROL, "no-store");
    Ok(response)
}
