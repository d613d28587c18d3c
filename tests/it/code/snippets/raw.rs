//! Raw contents of snippets.

use serde_json::json;

use super::{home, snippet};
use crate::support::{TestServer, on_every_database};

async fn get_raw_snippet_returns_unchanged_content(server: TestServer) {
    let (_, path) = home(&server, "bytes", "public").await;
    let root = server.root();
    for path in ["", path.as_str()] {
        let attributes = json!({"content": "<script>alert('\u{e4}')</script>\n", "file_name": "x\"y\u{e4}.html", "visibility": "public"});
        let id = snippet(&root, path, "t", attributes).await;
        let raw = format!("{path}/snippets/{id}/raw");
        let whole = server.anonymous().get(&raw).await.expect(200);
        assert_eq!(whole.header("content-type"), "text/plain; charset=utf-8");
        assert_eq!(whole.header("x-content-type-options"), "nosniff");
        let disposition = "inline; filename=\"x_y_.html\"; filename*=UTF-8''x%22y%C3%A4.html";
        assert_eq!(whole.header("content-disposition"), disposition);
        assert_eq!(whole.text(), "<script>alert('\u{e4}')</script>\n");
        let tag = whole.header("etag").to_owned();
        let held = root.request(reqwest::Method::GET, &raw).header("If-None-Match", &tag);
        root.send(held).await.expect(304);
        let part = root.request(reqwest::Method::GET, &raw).header("Range", "bytes=1-6");
        assert_eq!(root.send(part).await.expect(206).text(), "script");
        let beyond = root.request(reqwest::Method::GET, &raw).header("Range", "bytes=1000-");
        root.send(beyond).await.expect(416);
        root.put(&format!("{path}/snippets/{id}"), json!({"content": "other"})).await.expect(200);
        let held = root.request(reqwest::Method::GET, &raw).header("If-None-Match", &tag);
        let new = root.send(held).await.expect(200);
        assert!(new.header("etag") != tag);
        assert_eq!(new.text(), "other");
    }
}

async fn create_snippet_accepts_large_content_and_rejects_oversized(server: TestServer) {
    let root = server.root();
    let id = snippet(&root, "", "long", json!({"content": "x".repeat(30 << 20)})).await;
    let raw = root.get(&format!("/snippets/{id}/raw")).await.expect(200);
    assert_eq!(raw.body.len(), 30 << 20);
    let more = json!({"title": "t", "file_name": "f", "content": "x".repeat(50 << 20)});
    root.post("/snippets", more).await.expect(413);
}

on_every_database![
    get_raw_snippet_returns_unchanged_content,
    create_snippet_accepts_large_content_and_rejects_oversized,
];
