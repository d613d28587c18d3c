//! The API documentation page and the OpenAPI document, both without authentication.
//!
//! The page is Swagger UI, embedded by a crate; only its frame and start script are part of this repository. It
//! loads nothing from other hosts. It encodes `group/project` as `group%2Fproject`, and authenticates with a
//! pasted token or the session.

use std::sync::{Arc, LazyLock};

use poem::http::header::{CACHE_CONTROL, ETAG, LOCATION};
use poem::http::{HeaderMap, StatusCode};
use poem::web::Path;
use poem::{Endpoint, EndpointExt, Request, Response, Route, get, handler};
use sha2::{Digest, Sha256};
use utoipa_swagger_ui::Config;

use crate::api::revalidation::none_match;
use contract::{DOCUMENT_JSON, DOCUMENT_YAML};

/// Content security policy: requests to this server only, own scripts, and inline styles.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
                      img-src 'self' data:; font-src 'self'; connect-src 'self'; frame-ancestors 'self'; \
                      base-uri 'none'; form-action 'none'";

/// The page itself.
const PAGE: &str = include_str!("../../assets/docs.html");

/// Starts the page. With a session, requests include its CSRF token.
const INITIALIZER: &str = include_str!("../../assets/swagger-initializer.js");

/// The routes of the page.
pub fn routes() -> impl Endpoint<Output = Response> {
    Route::new().at("/*path", get(page)).map_to_response()
}

/// Returns the page and its files. `/docs` redirects to `/docs/`, because the page's links are relative.
#[handler]
fn page(Path(path): Path<String>, request: &Request) -> Response {
    if !path.is_empty() {
        return asset(&path, request.headers());
    }
    if !request.original_uri().path().ends_with('/') {
        return Response::builder()
            .status(StatusCode::FOUND)
            .header(LOCATION, "/docs/")
            .finish();
    }
    content(
        PAGE.as_bytes().to_vec(),
        "text/html; charset=utf-8",
        request.headers(),
    )
}

fn asset(path: &str, headers: &HeaderMap) -> Response {
    static CONFIG: LazyLock<Arc<Config<'static>>> =
        LazyLock::new(|| Arc::new(Config::from("/api/v4/openapi.json")));
    if path == "swagger-initializer.js" {
        return content(
            INITIALIZER.as_bytes().to_vec(),
            "text/javascript; charset=utf-8",
            headers,
        );
    }
    match utoipa_swagger_ui::serve(path, Arc::clone(&CONFIG)) {
        Ok(Some(file)) => content(file.bytes.into_owned(), &file.content_type, headers),
        _ => Response::builder()
            .status(StatusCode::NOT_FOUND)
            .content_type("text/plain")
            .body("Page not found.\n"),
    }
}

/// Returns content with an entity tag, so that a second visit transfers nothing.
fn content(bytes: Vec<u8>, content_type: &str, headers: &HeaderMap) -> Response {
    let tag = format!("W/\"{}\"", hex::encode(&Sha256::digest(&bytes)[..12]));
    let builder = Response::builder()
        .header(ETAG, &tag)
        .header(CACHE_CONTROL, "no-cache")
        .header("content-security-policy", POLICY);
    if none_match(headers, &tag) {
        return builder.status(StatusCode::NOT_MODIFIED).finish();
    }
    builder.content_type(content_type).body(bytes)
}

/// Returns the published document as JSON.
#[handler]
pub fn json(headers: &HeaderMap) -> Response {
    content(DOCUMENT_JSON.as_bytes().to_vec(), "application/json", headers)
}

/// Returns the published document as YAML.
#[handler]
pub fn yaml(headers: &HeaderMap) -> Response {
    content(DOCUMENT_YAML.as_bytes().to_vec(), "application/yaml", headers)
}
