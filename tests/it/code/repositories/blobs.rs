//! Blobs by their IDs.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;
use storage::entities::Visibility;

use crate::support::code::{NewCommit, Project, file};
use crate::support::{TestServer, on_every_database};

async fn get_blob_returns_base64_content(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    let id = project.id("main:README.md");
    let blob = server.anonymous().get(&project.url(&format!("/blobs/{id}"))).await.expect(200);
    let content = BASE64_STANDARD.encode("Hello, world\n");
    assert_eq!(blob.json(), json!({ "size": 13, "encoding": "base64", "content": content, "sha": id }));
}

async fn get_blob_returns_404_for_id_of_another_type(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    let absent = "0".repeat(40);
    for id in [
        &project.id("main"),
        &project.id("main^{tree}"),
        &absent,
        "main",
        "HEAD",
        &project.id("main:README.md")[..8],
        "--batch",
        "zz",
    ] {
        for suffix in ["", "/raw"] {
            let answer = server.anonymous().get(&project.url(&format!("/blobs/{id}{suffix}"))).await;
            assert_eq!(answer.expect(404).message(), "404 Blob Not Found", "{id}");
        }
    }
    let long = "a".repeat(65);
    for id in ["%00", "%FF", &long] {
        for suffix in ["", "/raw"] {
            server.anonymous().get(&project.url(&format!("/blobs/{id}{suffix}"))).await.expect(400);
        }
    }
}

async fn get_raw_blob_returns_unchanged_bytes(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    let id = project.id("main:README.md");
    let answer = server.anonymous().get(&project.url(&format!("/blobs/{id}/raw"))).await.expect(200);
    assert_eq!(answer.text(), "Hello, world\n");
    assert_eq!(answer.header("Content-Type"), "text/plain");
    assert_eq!(answer.header("ETag"), format!("\"{id}\""));
    assert_eq!(answer.header("Content-Length"), "13");
    assert!(answer.header("Content-Disposition").starts_with("inline;"));
    assert!(answer.header("Cache-Control").contains("no-store"));
    project.import(&NewCommit { changes: file("data.bin", "a\0b"), ..NewCommit::default() });
    let id = project.id("main:data.bin");
    let answer = server.anonymous().get(&project.url(&format!("/blobs/{id}/raw"))).await.expect(200);
    assert_eq!(
        (answer.body.as_slice(), answer.header("Content-Type")),
        (b"a\0b".as_slice(), "application/octet-stream")
    );
    server.anonymous().head(&project.url(&format!("/blobs/{id}/raw"))).await.expect(200);
}

async fn get_raw_blob_supports_ranges_and_etags(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    let id = project.id("main:README.md");
    let url = project.url(&format!("/blobs/{id}/raw"));
    let with = |name: &str, value: &str| server.anonymous().header(name, value);
    let part = with("Range", "bytes=7-11").get(&url).await.expect(206);
    assert_eq!((part.text().as_str(), part.header("Content-Range")), ("world", "bytes 7-11/13"));
    let tail = with("Range", "bytes=-1").get(&url).await.expect(206);
    assert_eq!(tail.text(), "\n");
    let beyond = with("Range", "bytes=13-").get(&url).await.expect(416);
    assert_eq!(beyond.header("Content-Range"), "bytes */13");
    with("Range", "bytes=0-1,3-4").get(&url).await.expect(200);
    let known = with("If-None-Match", &format!("\"{id}\"")).get(&url).await.expect(304);
    assert_eq!((known.body.len(), known.header("ETag")), (0, format!("\"{id}\"").as_str()));
    with("If-None-Match", "\"other\"").get(&url).await.expect(200);
    let other = with("Range", "bytes=0-1").header("If-Range", "\"other\"").get(&url).await.expect(200);
    assert_eq!(other.text(), "Hello, world\n");
}

async fn get_raw_blob_streams_large_content(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    let content: String = (0..1_000_000).map(|number| format!("{number:07}\n")).collect();
    let id = project.git_with(&["hash-object", "-w", "--stdin"], &content);
    let url = project.url(&format!("/blobs/{id}/raw"));
    let whole = server.anonymous().get(&url).await.expect(200);
    assert_eq!(whole.header("Content-Length"), "8000000");
    assert!(whole.body == content.as_bytes(), "the content differs");
    let part = server.anonymous().header("Range", "bytes=7999992-").get(&url).await.expect(206);
    assert_eq!(part.text(), "0999999\n");
}

on_every_database![
    get_blob_returns_base64_content,
    get_blob_returns_404_for_id_of_another_type,
    get_raw_blob_returns_unchanged_bytes,
    get_raw_blob_supports_ranges_and_etags,
    get_raw_blob_streams_large_content,
];
