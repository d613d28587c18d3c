//! The documentation portal at `/docs`, without a token.

use contract::document::{PublishedFile, files, find};
use holdfast::config::ConfigOptions;
use reqwest::Method;
use serde_json::json;

use crate::support::{ApiResponse, Client, DatabaseKind, TestServer, on_every_database};

/// Media type of Markdown.
const MARKDOWN: &str = "text/markdown; charset=utf-8";
/// Maximum number of elements of the page of an operation. Scripts add some; the tests in a browser allow 2,000.
const MAX_ELEMENTS: usize = 1_940;
/// A page of an operation.
const PAGE: &str = "//docs/operation/get_project";

async fn requested(client: &Client, path: &str, header: (&str, &str)) -> ApiResponse {
    let request = client.request(Method::GET, path).header(header.0, header.1);
    client.send(request).await
}

/// Returns the content of a file.
fn content(path: &str) -> Vec<u8> {
    find(path).expect(path).content().expect(path)
}

fn portal_files() -> impl Iterator<Item = &'static PublishedFile> {
    files().iter().filter(|file| file.path.starts_with("docs/"))
}

/// The pages are part of the executable, so the kind of the database makes no difference.
async fn all_pages_are_served_with_type_policy_and_digest() {
    let server = TestServer::start_with(DatabaseKind::Sqlite, ConfigOptions::default()).await;
    let client = server.anonymous();
    assert!(portal_files().count() > 1_800);
    for file in portal_files() {
        let path = format!("//{}", file.path);
        let response = requested(&client, &path, ("Accept-Encoding", "gzip")).await.expect(200);
        assert_eq!(response.header("content-type"), file.media_type, "{path}");
        assert_eq!(response.header("content-encoding"), "gzip", "{path}");
        let mut vary = response.headers.get_all("vary").iter();
        assert!(vary.any(|value| value == "Accept-Encoding"), "{path}");
        assert_eq!(response.header("etag"), format!("W/\"{}\"", file.tag), "{path}");
        assert!(response.body == *file.gzip().expect(file.path), "{path}");
        let policy = response.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"), "{path}: {policy}");
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
    }
    server.stop().await;
}

fn pages_of_operations_have_a_limited_number_of_elements() {
    for file in portal_files().filter(|file| file.path.starts_with("docs/operation/") && !file.path.ends_with(".md")) {
        let page = content(file.path);
        let elements = page.windows(2).filter(|pair| pair[0] == b'<' && pair[1].is_ascii_lowercase()).count();
        assert!(elements <= MAX_ELEMENTS, "{} has {elements} elements", file.path);
    }
}

async fn page_has_the_same_content_without_compression(server: TestServer) {
    let client = server.anonymous();
    for path in ["docs/operation/get_project", "docs/roles", "docs/search.json", "docs/llms.txt"] {
        for header in [("Accept-Encoding", "identity"), ("Accept-Encoding", "gzip;q=0")] {
            let response = requested(&client, &format!("//{path}"), header).await.expect(200);
            assert_eq!(response.header("content-encoding"), "", "{path}");
            assert!(response.body == content(path), "{path}");
        }
    }
}

async fn current_page_is_not_sent_again(server: TestServer) {
    let client = server.anonymous();
    let first = client.get(PAGE).await.expect(200);
    assert_eq!(first.header("cache-control"), "no-cache");
    let again = requested(&client, PAGE, ("If-None-Match", first.header("etag"))).await.expect(304);
    assert!(again.body.is_empty());
    requested(&client, PAGE, ("If-None-Match", "W/\"other\"")).await.expect(200);
}

async fn head_request_has_the_headers_of_the_page(server: TestServer) {
    let client = server.anonymous();
    let (page, head) = (client.get(PAGE).await.expect(200), client.head(PAGE).await.expect(200));
    assert!(head.body.is_empty());
    for name in ["content-type", "etag", "content-security-policy"] {
        assert_eq!(head.header(name), page.header(name), "{name}");
    }
}

async fn markdown_is_returned_by_extension_and_on_request(server: TestServer) {
    let client = server.anonymous();
    let expected = content("docs/operation/get_project.md");
    let by_name = client.get(&format!("{PAGE}.md")).await.expect(200);
    assert!(by_name.body == expected && by_name.header("content-type") == MARKDOWN);
    let requested = async |accept| requested(&client, PAGE, ("Accept", accept)).await.expect(200);
    let markdown = requested("text/markdown, text/html;q=0.5").await;
    assert!(markdown.body == expected && markdown.header("content-type") == MARKDOWN);
    for accept in ["text/html", "*/*", "text/html, text/markdown"] {
        assert!(requested(accept).await.body == content("docs/operation/get_project"), "{accept}");
    }
    let vary = markdown.headers.get_all("vary");
    assert!(vary.iter().any(|value| value == "Accept"), "caches must distinguish the formats");
    let start = self::requested(&client, "//docs/", ("Accept", "text/markdown")).await.expect(200);
    assert!(start.body == content("docs/index.md"));
}

async fn assets_are_immutable(server: TestServer) {
    let client = server.anonymous();
    let assets: Vec<&str> =
        portal_files().map(|file| file.path).filter(|path| path.starts_with("docs/docs.")).collect();
    assert_eq!(assets.len(), 2);
    let page = client.get(PAGE).await.text();
    for path in assets {
        assert!(page.contains(&format!("\"/{path}\"")), "{path}");
        let response = client.get(&format!("//{path}")).await.expect(200);
        assert_eq!(response.header("cache-control"), "public, max-age=31536000, immutable");
    }
}

async fn root_and_docs_lead_to_the_first_page(server: TestServer) {
    let client = server.anonymous();
    let expected = content("docs/index");
    for path in ["//docs/", "//docs/index"] {
        assert!(client.get(path).await.expect(200).body == expected, "{path}");
    }
    let http = crate::support::client::http().redirect(reqwest::redirect::Policy::none()).build().expect("a client");
    for path in ["/", "/docs"] {
        let response = http.get(format!("{}{path}", server.base)).send().await.expect("a response");
        assert_eq!(
            (response.status().as_u16(), &response.headers()["location"]),
            (302, &"/docs/".parse().expect("a value"))
        );
    }
}

async fn unknown_page_returns_404_with_a_link_to_the_first_page(server: TestServer) {
    let client = server.anonymous();
    for path in
        ["//docs/nothing", "//docs/operation/", "//docs/operation/nothing.md", "//docs/openapi.json", "//docs/%00"]
    {
        let response = client.get(path).await.expect(404);
        assert!(response.text().contains("href=\"/docs/\""), "{path}");
        assert_eq!(response.header("etag"), "", "{path}");
    }
    for (path, method) in [("//docs/roles", Method::POST), ("//", Method::PUT)] {
        let wrong = client.send(client.request(method, path)).await;
        assert_eq!((wrong.status, wrong.header("allow")), (405, "GET, HEAD"), "{path}");
    }
}

async fn optional_session_returns_null_without_a_session(server: TestServer) {
    let client = server.anonymous();
    let response = client.get("//-/session?optional=true").await.expect(200);
    assert_eq!(response.json(), json!({ "user": null, "csrf_token": null }));
    assert_eq!(response.header("cache-control"), "no-store");
    for query in ["", "?optional=false", "?optional=maybe"] {
        client.get(&format!("//-/session{query}")).await.expect(401);
    }
}

harness::tests![
    all_pages_are_served_with_type_policy_and_digest,
    pages_of_operations_have_a_limited_number_of_elements,
];
on_every_database![
    page_has_the_same_content_without_compression,
    current_page_is_not_sent_again,
    head_request_has_the_headers_of_the_page,
    markdown_is_returned_by_extension_and_on_request,
    assets_are_immutable,
    root_and_docs_lead_to_the_first_page,
    unknown_page_returns_404_with_a_link_to_the_first_page,
    optional_session_returns_null_without_a_session,
];
