//! Frame of the server's own pages, without external resources and scripts.

use std::sync::LazyLock;

use base64::{Engine, engine::general_purpose::STANDARD};
use poem::Response;
use poem::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_FRAME_OPTIONS};
use poem::http::{HeaderValue, StatusCode};
use sha2::{Digest, Sha256};

use crate::views::html::escape;

/// Returns a page with HTML content. `form_action` limits the targets of its forms, including redirects.
pub(super) fn document(status: StatusCode, title: &str, content: &str, form_action: &str) -> Response {
    let title = escape(title);
    let body = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title} - Holdfast</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n{content}</main>\n</body>\n</html>\n"
    );
    let mut response = Response::builder()
        .status(status)
        .content_type("text/html; charset=utf-8")
        .body(body);
    let policy = format!(
        "default-src 'none'; style-src '{}'; form-action {form_action}; base-uri 'none'; frame-ancestors 'none'",
        *STYLE_SOURCE
    );
    let strictest = HeaderValue::from_static("default-src 'none'");
    let headers = [
        (
            CONTENT_SECURITY_POLICY,
            HeaderValue::from_str(&policy).unwrap_or(strictest),
        ),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
        (REFERRER_POLICY, HeaderValue::from_static("same-origin")),
    ];
    for (name, value) in headers {
        response.headers_mut().insert(name, value);
    }
    response
}

/// The only style that browsers accept in a page: an injected one has another digest.
static STYLE_SOURCE: LazyLock<String> =
    LazyLock::new(|| format!("sha256-{}", STANDARD.encode(Sha256::digest(STYLE))));

/// Readable in light and dark mode and at any width, with a visible focus.
const STYLE: &str = "\
:root{color-scheme:light dark;font-family:system-ui,sans-serif}\
body{margin:0;display:grid;place-items:center;min-height:100vh}\
main{width:min(22rem,calc(100vw - 2rem))}\
label,input,button{display:block;width:100%;box-sizing:border-box;font:inherit}\
label{margin-top:1rem}input,button{padding:.6rem;margin-top:.25rem}button{margin-top:1.5rem}\
:focus-visible{outline:3px solid;outline-offset:2px}\
[role=alert]{border-inline-start:4px solid;padding-inline-start:.75rem}";
