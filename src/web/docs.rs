//! The documentation portal and the OpenAPI documents, without authentication.
//!
//! All files are embedded and compressed. The pages run one script of this server and load nothing from other hosts.

use std::borrow::Cow;

use bytes::Bytes;
use contract::document::{Extent, Format, PublishedFile, Version, document, find};
use domain::kernel::error::Error;
use poem::endpoint::make;
use poem::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_ENCODING, ETAG, LOCATION, VARY};
use poem::http::{HeaderMap, HeaderValue, StatusCode};
use poem::web::Path;
use poem::{Endpoint, EndpointExt, Request, Response, Route, get, handler};
use serde::Deserialize;

use super::compress::accepts_gzip;
use crate::api::error_response::render;
use crate::api::revalidation::none_match;

/// Paths of the published documents.
const DOCUMENTS: [(&str, Version, Format); 4] = [
    ("/api/v4/openapi.json", Version::V3_0, Format::Json),
    ("/api/v4/openapi.yaml", Version::V3_0, Format::Yaml),
    ("/api/v4/openapi-3.1.json", Version::V3_1, Format::Json),
    ("/api/v4/openapi-3.1.yaml", Version::V3_1, Format::Yaml),
];

/// Content security policy: requests to this server only, and only its own scripts and styles.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      frame-ancestors 'self'; base-uri 'none'; form-action 'none'";

/// Path of the first page.
const START: &str = "/docs/";
/// Start of the paths of files whose name changes with their content.
const IMMUTABLE: &str = "docs/docs.";

/// The routes of the pages.
pub fn routes() -> impl Endpoint<Output = Response> {
    Route::new().at("/*path", get(page)).map_to_response()
}

/// The route `/`, which leads to the first page.
pub fn root_route() -> impl Endpoint<Output = Response> {
    get(root).map_to_response()
}

#[handler]
fn root() -> Response {
    redirect()
}

/// Redirects to the first page.
fn redirect() -> Response {
    Response::builder()
        .status(StatusCode::FOUND)
        .header(LOCATION, START)
        .finish()
}

/// Returns a page or another file. `/docs` redirects to `/docs/`.
#[handler]
async fn page(Path(path): Path<String>, request: &Request) -> Response {
    if path.is_empty() && !request.original_uri().path().ends_with('/') {
        return redirect();
    }
    let path = match path.as_str() {
        "" => "docs/index".to_owned(),
        path => format!("docs/{path}"),
    };
    let headers = request.headers();
    let markdown = find(&format!("{path}.md"));
    let mut response = match (markdown, find(&path)) {
        (Some(file), _) if prefers_markdown(headers) => content(file, headers).await,
        (_, Some(file)) => content(file, headers).await,
        (_, None) => not_found(headers).await,
    };
    if markdown.is_some() {
        response
            .headers_mut()
            .append(VARY, HeaderValue::from_static("Accept"));
    }
    if path.starts_with(IMMUTABLE) && response.status() == StatusCode::OK {
        let forever = HeaderValue::from_static("public, max-age=31536000, immutable");
        response.headers_mut().insert(CACHE_CONTROL, forever);
    }
    response
}

/// Returns the page for unknown paths.
async fn not_found(headers: &HeaderMap) -> Response {
    let Some(file) = find("docs/not-found") else {
        return Response::builder().status(StatusCode::NOT_FOUND).finish();
    };
    let mut unconditional = headers.clone();
    unconditional.remove(poem::http::header::IF_NONE_MATCH);
    let mut response = content(file, &unconditional).await;
    response.set_status(StatusCode::NOT_FOUND);
    response.headers_mut().remove(ETAG);
    response
}

/// Returns whether a client asks for Markdown, and not for HTML before it.
fn prefers_markdown(headers: &HeaderMap) -> bool {
    let values = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok());
    let mut types = values
        .flat_map(|value| value.split(','))
        .map(|range| range.split(';').next().unwrap_or_default().trim());
    types.find(|name| matches!(*name, "text/html" | "text/markdown")) == Some("text/markdown")
}

/// Returns a file with an entity tag, so that a second visit transfers nothing.
async fn content(file: &'static PublishedFile, headers: &HeaderMap) -> Response {
    let tag = format!("W/\"{}\"", file.tag);
    let builder = Response::builder()
        .header(ETAG, &tag)
        .header(CACHE_CONTROL, "no-cache")
        .header("content-security-policy", POLICY);
    if none_match(headers, &tag) {
        return builder.status(StatusCode::NOT_MODIFIED).finish();
    }
    let builder = builder.content_type(file.media_type);
    let is_compressed = accepts_gzip(headers);
    let builder = match is_compressed {
        true => builder
            .header(CONTENT_ENCODING, "gzip")
            .header(VARY, "Accept-Encoding"),
        false => builder,
    };
    let read = move || match is_compressed {
        true => file.gzip(),
        false => file.content().map(Cow::Owned),
    };
    // A page takes a millisecond, and the largest document several.
    match tokio::task::spawn_blocking(read).await {
        Ok(Ok(Cow::Borrowed(bytes))) => builder.body(Bytes::from_static(bytes)),
        Ok(Ok(Cow::Owned(bytes))) => builder.body(bytes),
        Ok(Err(error)) => render(&Error::internal(format!("failed to read a page: {error}"))),
        Err(_) => render(&Error::internal("reading a page panicked")),
    }
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
            let document = move |request: Request| async move {
                Ok::<_, poem::Error>(published(&request, version, format).await)
            };
            routes.at(path, get(make(document)))
        })
}

/// Returns a published document. With `for=sdk`, it is reduced for SDK generators.
async fn published(request: &Request, version: Version, format: Format) -> Response {
    let Ok(query) = request.params::<DocumentQuery>() else {
        return render(&Error::value_not_allowed("for", ["sdk"]));
    };
    let extent = match query.purpose {
        Some(Purpose::Sdk) => Extent::Sdk,
        None => Extent::Complete,
    };
    content(document(version, extent, format), request.headers()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_is_preferred_if_it_is_named_before_html() {
        for (accept, expected) in [
            ("text/markdown", true),
            ("text/markdown, text/html;q=0.9", true),
            ("text/html, text/markdown", false),
            ("text/html,application/xhtml+xml,*/*;q=0.8", false),
            ("*/*", false),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(prefers_markdown(&headers), expected, "{accept}");
        }
        assert!(!prefers_markdown(&HeaderMap::new()));
    }
}
