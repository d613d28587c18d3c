//! OAuth 2.0 endpoints: authorization, and issuing, refreshing, revoking and introspecting tokens. Errors have
//! the format of RFC 6749.

mod authorize;
mod token;

use domain::kernel::Backend;
use domain::kernel::policy::TOKEN_SCOPES;
use poem::http::StatusCode;
use poem::web::Data;
use poem::{Endpoint, EndpointExt, Response, Route, get, handler, post};
use serde_json::json;

use crate::api::error_response::json_response;

/// Path of the server metadata (RFC 8414).
pub const METADATA_PATH: &str = "/.well-known/oauth-authorization-server";

/// Maximum size of a form, in bytes.
const FORM_LIMIT: usize = 32 * 1024;

/// The routes below `/oauth`.
pub fn routes(backend: &Backend) -> impl Endpoint<Output = Response> + use<> {
    Route::new()
        .at("/authorize", get(authorize::show).post(authorize::decide))
        .at("/token", post(token::issue))
        .at("/token/info", get(token::info))
        .at("/revoke", post(token::revoke))
        .at("/introspect", post(token::introspect))
        .data(backend.clone())
        .map_to_response()
}

/// The route at [`METADATA_PATH`].
pub fn metadata_route(backend: &Backend) -> impl Endpoint<Output = Response> + use<> {
    get(metadata).data(backend.clone()).map_to_response()
}

#[handler]
fn metadata(Data(backend): Data<&Backend>) -> Response {
    let base = &backend.instance.base_url;
    let client = ["client_secret_basic", "client_secret_post", "none"];
    let body = json!({
        "issuer": base,
        "authorization_endpoint": format!("{base}/oauth/authorize"),
        "token_endpoint": format!("{base}/oauth/token"),
        "revocation_endpoint": format!("{base}/oauth/revoke"),
        "introspection_endpoint": format!("{base}/oauth/introspect"),
        "scopes_supported": TOKEN_SCOPES,
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_methods_supported": client,
        "revocation_endpoint_auth_methods_supported": client,
        "introspection_endpoint_auth_methods_supported": client[..2],
        "code_challenge_methods_supported": ["S256", "plain"],
    });
    json_response(StatusCode::OK, &body)
}
