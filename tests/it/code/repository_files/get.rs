//! Files as JSON, file metadata and blame.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::support::repository::Sample;
use crate::support::{TestServer, on_every_database};

async fn get_file_returns_all_fields(server: TestServer) {
    let sample = Sample::new(&server).await;
    let answer = server.root().get(&format!("{}?ref=main", sample.file("README.md"))).await.expect(200);
    let content = sample.git_raw(&["show", "main:README.md"]);
    assert_eq!(
        answer.json(),
        json!({
            "file_name": "README.md",
            "file_path": "README.md",
            "size": content.len(),
            "encoding": "base64",
            "content": STANDARD.encode(&content),
            "content_sha256": hex::encode(Sha256::digest(&content)),
            "ref": "main",
            "blob_id": sample.git_raw(&["rev-parse", "main:README.md"]).trim(),
            "commit_id": sample.id_of("main"),
            "last_commit_id": sample.git_raw(&["log", "-1", "--format=%H", "main", "--", "README.md"]).trim(),
        })
    );
}

async fn head_and_get_return_same_metadata_headers(server: TestServer) {
    let sample = Sample::new(&server).await;
    let path = "docs/two words/\u{fc}bung.md";
    let root = server.root();
    let shown = root.get(&format!("{}?ref=v1.0", sample.file(path))).await.expect(200).json();
    for suffix in ["", "/blame", "/raw"] {
        let url = format!("{}{suffix}?ref=v1.0", sample.file(path));
        for answer in [root.head(&url).await.expect(200), root.get(&url).await.expect(200)] {
            for (header, field) in [
                ("X-Service-Blob-Id", "blob_id"),
                ("X-Service-Commit-Id", "commit_id"),
                ("X-Service-Content-Sha256", "content_sha256"),
                ("X-Service-Encoding", "encoding"),
                ("X-Service-File-Name", "file_name"),
                ("X-Service-File-Path", "file_path"),
                ("X-Service-Last-Commit-Id", "last_commit_id"),
                ("X-Service-Ref", "ref"),
                ("X-Service-Size", "size"),
            ] {
                let sent = String::from_utf8_lossy(answer.headers[header].as_bytes()).into_owned();
                let expected = shown[field].as_str().map_or(shown[field].to_string(), str::to_owned);
                assert_eq!(sent, expected, "{suffix} {header}");
            }
        }
        assert!(root.head(&url).await.body.is_empty());
    }
}

async fn get_file_returns_exact_bytes(server: TestServer) {
    let sample = Sample::new(&server).await;
    for (path, content) in
        [("image.bin", "a\0b\n".as_bytes()), ("crlf.txt", b"a\r\nb\r\n"), ("empty", b""), ("link", b"README.md")]
    {
        let answer = server.root().get(&format!("{}?ref=main", sample.file(path))).await.expect(200);
        assert_eq!(STANDARD.decode(answer.json()["content"].as_str().expect("text")).expect("Base64"), content);
    }
}

async fn get_file_accepts_branch_tag_and_commit_id(server: TestServer) {
    let sample = Sample::new(&server).await;
    let (main, short) = (sample.id_of("main"), sample.id_of("main")[..10].to_owned());
    for (reference, expected) in [
        ("main", "main"),
        ("ends-with.json", "ends-with.json"),
        ("v2.0", "main"),
        ("v1.0", "v1.0"),
        (&main, "main"),
        (&short, "main"),
    ] {
        let url = format!("{}?ref={reference}", sample.file("README.md"));
        let answer = server.root().get(&url).await.expect(200).json();
        assert_eq!(answer["commit_id"], sample.id_of(expected).as_str(), "{reference}");
        assert_eq!(answer["ref"], reference);
    }
}

async fn get_file_returns_404_for_paths_without_file(server: TestServer) {
    let sample = Sample::new(&server).await;
    for path in ["missing", "bin", "sub", "readme.md", "bin/", "./README.md", "bin//run", "*", "README.md/x", "-"] {
        for suffix in ["", "/blame", "/raw"] {
            let url = format!("{}{suffix}?ref=main", sample.file(path));
            let answer = server.root().get(&url).await.expect(404);
            assert_eq!(answer.message(), "404 File Not Found", "{path}");
            assert_eq!(server.root().head(&url).await.status, 404);
        }
    }
}

async fn get_file_of_unknown_or_hostile_ref_returns_404(server: TestServer) {
    let sample = Sample::new(&server).await;
    let tree = sample.git_raw(&["rev-parse", "main^{tree}"]);
    for reference in [
        "unknown",
        "--upload-pack=x",
        "-n",
        "main..topic",
        "main:README.md",
        ":/Initial",
        "@{0}",
        "main@{1}",
        "refs/heads/../../config",
        tree.trim(),
        "0000000000000000000000000000000000000000",
    ] {
        let url = format!("{}?ref={}", sample.file("README.md"), crate::support::client::segment(reference));
        let answer = server.root().get(&url).await.expect(404);
        assert_eq!(answer.message(), "404 Commit Not Found", "{reference}");
    }
}

async fn get_file_rejects_missing_ref_and_invalid_paths(server: TestServer) {
    let sample = Sample::new(&server).await;
    let root = server.root();
    for suffix in ["", "/blame", "/raw"] {
        let url = format!("{}{suffix}", sample.file("README.md"));
        assert_eq!(root.get(&url).await.expect(400).message(), "ref is missing, ref is empty");
        assert_eq!(root.head(&url).await.status, 400);
    }
    for path in ["../x", "a/../b", "/etc/passwd", "a/.."] {
        let answer = root.get(&format!("{}?ref=main", sample.file(path))).await.expect(400);
        assert_eq!(answer.json()["error"], "file_path should be a valid file path", "{path}");
    }
    let raw = |raw: &str| format!("/projects/{}/repository/files/{raw}?ref=main", sample.id);
    assert_eq!(root.get(&raw("a%00b")).await.expect(400).message(), "file_path is invalid");
    root.get(&raw("%ff%fe")).await.expect(400);
    root.get(&format!("{}?ref=main%00", sample.file("README.md"))).await.expect(400);
    root.get(&format!("{}?ref=%ff", sample.file("README.md"))).await.expect(400);
    let long = "x".repeat(5_000);
    root.get(&format!("{}?ref=main", sample.file(&long))).await.expect(400);
}

async fn get_blame_returns_commit_of_every_line(server: TestServer) {
    let sample = Sample::new(&server).await;
    let answer = server.root().get(&format!("{}/blame?ref=main", sample.file("README.md"))).await.expect(200).json();
    let (first, second) = (sample.id_of("v1.0"), sample.id_of("ends-with.json"));
    let shown: Vec<_> = answer
        .as_array()
        .expect("a list")
        .iter()
        .map(|range| (range["commit"]["id"].as_str().expect("an id").to_owned(), range["lines"].clone()))
        .collect();
    assert_eq!(shown, [(first.clone(), json!(["# Title", ""])), (second, json!(["Hello, world", "Bye"])),]);
    assert_eq!(
        answer[0]["commit"],
        json!({
            "id": first,
            "parent_ids": [],
            "message": "Initial commit\n",
            "authored_date": "2020-01-01T14:00:00.000+02:00",
            "author_name": "Ada Lovelace",
            "author_email": "ada@example.com",
            "committed_date": "2020-01-01T09:30:00.000-03:30",
            "committer_name": "Bob Hope",
            "committer_email": "bob@example.com",
        })
    );
    let empty = server.root().get(&format!("{}/blame?ref=main", sample.file("empty"))).await.expect(200);
    assert_eq!(empty.json(), json!([]));
}

on_every_database![
    get_file_returns_all_fields,
    head_and_get_return_same_metadata_headers,
    get_file_returns_exact_bytes,
    get_file_accepts_branch_tag_and_commit_id,
    get_file_returns_404_for_paths_without_file,
    get_file_of_unknown_or_hostile_ref_returns_404,
    get_file_rejects_missing_ref_and_invalid_paths,
    get_blame_returns_commit_of_every_line,
];
