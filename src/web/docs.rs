//! The API documentation page and the OpenAPI documents, without authentication.
//!
//! The page is Swagger UI, embedded as an archive; only its frame and start script are part of this repository. It
//! loads nothing from other hosts. It encodes `group/project` as `group%2Fproject`, and authenticates with a
//! pasted token or the session.

use std::collections::HashMap;
use std::io::{Cursor, Read};
use std::sync::LazyLock;

use bytes::Bytes;
use contract::document::{Extent, Format, Version, document};
use domain::kernel::error::Error;
use poem::endpoint::make_sync;
use poem::http::header::{CACHE_CONTROL, ETAG, LOCATION};
use poem::http::{HeaderMap, StatusCode};
use poem::web::Path;
use poem::{Endpoint, EndpointExt, Request, Response, Route, get, handler};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use utoipa_swagger_ui_vendored::SWAGGER_UI_VENDORED;
use zip::ZipArchive;
use zip::result::ZipResult;

use crate::api::error_response::render;
use crate::api::revalidation::none_match;

/// Paths of the published documents.
const DOCUMENTS: [(&str, Version, Format); 4] = [
    ("/api/v4/openapi.json", Version::V3_0, Format::Json),
    ("/api/v4/openapi.yaml", Version::V3_0, Format::Yaml),
    ("/api/v4/openapi-3.1.json", Version::V3_1, Format::Json),
    ("/api/v4/openapi-3.1.yaml", Version::V3_1, Format::Yaml),
];

/// Content security policy: requests to this server only, own scripts, and inline styles.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
                      img-src 'self' data:; font-src 'self'; connect-src 'self'; frame-ancestors 'self'; \
                      base-uri 'none'; form-action 'none'";

/// The page itself.
static PAGE: LazyLock<StaticContent> =
    LazyLock::new(|| StaticContent::new(include_str!("../../assets/docs.html")));

/// Starts the page. With a session, requests include its CSRF token.
static INITIALIZER: LazyLock<StaticContent> =
    LazyLock::new(|| StaticContent::new(include_str!("../../assets/swagger-initializer.js")));

/// Content that does not change while the server runs, with its entity tag.
struct StaticContent {
    bytes: Bytes,
    tag: String,
}

impl StaticContent {
    fn new(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let tag = format!("W/\"{}\"", hex::encode(&Sha256::digest(&bytes)[..12]));
        Self { bytes, tag }
    }

    /// Returns the content with its entity tag, so that a second visit transfers nothing.
    fn response(&self, content_type: &str, headers: &HeaderMap) -> Response {
        let builder = Response::builder()
            .header(ETAG, &self.tag)
            .header(CACHE_CONTROL, "no-cache")
            .header("content-security-policy", POLICY);
        if none_match(headers, &self.tag) {
            return builder.status(StatusCode::NOT_MODIFIED).finish();
        }
        builder.content_type(content_type).body(self.bytes.clone())
    }
}

/// The routes of the page.
pub fn routes() -> impl Endpoint<Output = Response> {
    Route::new().at("/*path", get(page)).map_to_response()
}

/// Returns the page and its files. `/docs` redirects to `/docs/`, because the page's links are relative.
#[handler]
async fn page(Path(path): Path<String>, request: &Request) -> Response {
    if !path.is_empty() {
        return asset(path, request.headers()).await;
    }
    if !request.original_uri().path().ends_with('/') {
        return Response::builder()
            .status(StatusCode::FOUND)
            .header(LOCATION, "/docs/")
            .finish();
    }
    PAGE.response("text/html; charset=utf-8", request.headers())
}

async fn asset(path: String, headers: &HeaderMap) -> Response {
    if path == "swagger-initializer.js" {
        return INITIALIZER.response("text/javascript; charset=utf-8", headers);
    }
    let media_type = match path.rsplit_once('.').map(|(_, extension)| extension) {
        Some("css") => "text/css",
        Some("html") => "text/html",
        Some("js") => "text/javascript",
        Some("png") => "image/png",
        _ => "application/octet-stream",
    };
    // The first request decompresses all files.
    let file = tokio::task::spawn_blocking(move || FILES.get(&path)).await;
    match file {
        Ok(Some(file)) => file.response(media_type, headers),
        _ => Response::builder()
            .status(StatusCode::NOT_FOUND)
            .content_type("text/plain")
            .body("Page not found.\n"),
    }
}

/// The files of Swagger UI by name.
static FILES: LazyLock<HashMap<String, StaticContent>> = LazyLock::new(|| {
    decompress(SWAGGER_UI_VENDORED).unwrap_or_else(|error| {
        tracing::error!(%error, "failed to decompress the files of the docs page");
        HashMap::new()
    })
});

/// Returns the files in the folder `dist` of an archive of Swagger UI.
fn decompress(archive: &'static [u8]) -> ZipResult<HashMap<String, StaticContent>> {
    let mut archive = ZipArchive::new(Cursor::new(archive))?;
    let mut files = HashMap::new();
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index)?;
        let name = match entry.name()?.split_once('/') {
            Some((_, path)) if entry.is_file() => path.strip_prefix("dist/").map(str::to_owned),
            _ => None,
        };
        let Some(name) = name else { continue };
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes)?;
        files.insert(name, StaticContent::new(bytes));
    }
    Ok(files)
}

/// Query of the requests for a published document.
#[derive(Deserialize)]
struct DocumentQuery {
    #[serde(rename = "for")]
    purpose: Option<Purpose>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Purpose {
    Sdk,
}

/// Returns whether a path is the path of a published document.
pub(super) fn is_document(path: &str) -> bool {
    DOCUMENTS.iter().any(|(known, ..)| *known == path)
}

/// Adds the routes of the published documents.
pub fn add_documents(routes: Route) -> Route {
    DOCUMENTS
        .into_iter()
        .fold(routes, |routes, (path, version, format)| {
            routes.at(path, get(make_sync(published(version, format))))
        })
}

/// Returns the function that answers requests for a published document. With `for=sdk`, the document is reduced for SDK
/// generators.
fn published(version: Version, format: Format) -> impl Fn(Request) -> Response {
    let media_type = match format {
        Format::Json => "application/json",
        Format::Yaml => "application/yaml",
    };
    // The entity tag of a document of some megabytes is computed at the first request.
    let [complete, sdk] = [Extent::Complete, Extent::Sdk]
        .map(|extent| LazyLock::new(move || StaticContent::new(document(version, extent, format))));
    move |request| {
        let Ok(query) = request.params::<DocumentQuery>() else {
            return render(&Error::parameter("for does not have a valid value"));
        };
        let content = match query.purpose {
            Some(Purpose::Sdk) => &sdk,
            None => &complete,
        };
        content.response(media_type, request.headers())
    }
}
