//! Refused uploads of Python packages.

use reqwest::Method;
use serde_json::json;

use super::{Upload, counts, links, upload};
use crate::packages::small_files;
use crate::support::spaces::project;
use crate::support::{TestServer, on_every_database};

const FILE: &str = "my_pkg-1.0-py3-none-any.whl";

async fn existing_file_is_refused(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    Upload::new("my-pkg", "1.0", FILE, b"first").send(&root, id).await.expect(201);
    for name in ["my-pkg", "My.Pkg"] {
        let refused = Upload::new(name, "1.0", FILE, b"second").send(&root, id).await.expect(400);
        assert_eq!(refused.message(), "400 Bad request - Validation failed: File name has already been taken");
    }
    // The version in the form can differ from the version in the file name.
    for version in ["1.0.post1", "2.0"] {
        let refused = Upload::new("my-pkg", version, FILE, b"second").send(&root, id).await.expect(400);
        assert_eq!(refused.message(), "400 Bad request - Validation failed: File name has already been taken");
    }
    assert_eq!(counts(&server).await, (1, 1, 1));
    Upload::new("my-pkg", "2.0", "my_pkg-2.0-py3-none-any.whl", b"second").send(&root, id).await.expect(201);
    let other = project(&root, "other", json!({})).await;
    Upload::new("my-pkg", "1.0", FILE, b"first").send(&root, other).await.expect(201);
}

async fn invalid_attributes_are_refused_and_nothing_is_stored(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let valid = || Upload::new("my-pkg", "1.0", FILE, b"content");
    let long = "1".repeat(256);
    for (field, value, expected) in [
        ("name", None, "name is missing"),
        ("name", Some(""), "name"),
        ("name", Some("-my-pkg"), "name is invalid"),
        ("name", Some("my pkg"), "name is invalid"),
        ("name", Some("my/pkg"), "name is invalid"),
        ("name", Some("my-pkg\0"), "name"),
        ("name", Some("other"), "file name of content is invalid"),
        ("name", Some(&long), "name is too long"),
        ("version", None, "version is missing"),
        ("version", Some("latest"), "version is invalid"),
        ("version", Some("1.0/2"), "version is invalid"),
        ("version", Some("1.0\n"), "version is invalid"),
        ("version", Some(&long), "version is too long"),
        ("requires_python", Some(">=3\n"), "requires_python is invalid"),
        ("requires_python", Some(&long), "requires_python is too long"),
        ("md5_digest", Some("0"), "md5_digest is invalid"),
        ("md5_digest", Some("00000000000000000000000000000000"), "md5_digest is not the digest of the file"),
        ("sha256_digest", Some("zz"), "sha256_digest is invalid"),
        ("sha256_digest", Some(&"0".repeat(64)), "sha256_digest is not the digest of the file"),
    ] {
        let refused = valid().with(field, value).send(&root, id).await.expect(400);
        assert!(refused.message().starts_with(expected), "{field} {value:?}: {}", refused.message());
    }
    for file_name in ["my_pkg-1.0.exe", "my_pkg.whl", "other-1.0.whl", "../my_pkg-1.0.whl", "my_pkg-<b>.whl", ""] {
        let sent = Upload { file: Some((file_name, b"x".to_vec())), ..valid() };
        sent.with("sha256_digest", None).send(&root, id).await.expect(400);
    }
    let absent = Upload { file: None, ..valid() }.send(&root, id).await.expect(400);
    assert_eq!(absent.message(), "content is missing");
    let empty = Upload::new("my-pkg", "1.0", FILE, b"").send(&root, id).await.expect(400);
    assert!(empty.message().contains("empty"), "{}", empty.message());
    assert_eq!(counts(&server).await, (0, 0, 0));
    // Digests are optional, and are accepted in upper case.
    let sent = valid().with("sha256_digest", None).with("requires_python", Some(""));
    sent.send(&root, id).await.expect(201);
    let sent = Upload::new("my-pkg", "1.0", "my_pkg-1.0.zip", b"content");
    sent.with("md5_digest", Some("9A0364B9E99BB480DD25E1F0284C8555")).send(&root, id).await.expect(201);
}

async fn bodies_that_are_no_forms_are_refused(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let path = format!("/projects/{id}/packages/pypi");
    root.post(&path, json!({ "name": "my-pkg", "version": "1.0" })).await.expect(400);
    root.post_form(&path, &[("name", "my-pkg"), ("version", "1.0"), ("content", "x")]).await.expect(400);
    let broken = root.request(Method::POST, &path).header("content-type", "multipart/form-data; boundary=b");
    root.send(broken.body("--b\r\nContent-Disposition: form-data; name=\"name\"\r\n\r\nmy-pkg")).await.expect(400);
    assert_eq!(counts(&server).await, (0, 0, 0));
}

async fn file_over_the_limit_is_refused(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    for size in [100_001, 400_000] {
        Upload::new("my-pkg", "1.0", FILE, &vec![7; size]).send(&root, id).await.expect(413);
    }
    assert_eq!(counts(&server).await, (0, 0, 0));
    Upload::new("my-pkg", "1.0", FILE, &[7; 100_000]).send(&root, id).await.expect(201);
}

async fn markup_in_required_python_version_is_escaped(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let sent = Upload::new("my-pkg", "1.0", FILE, b"x").with("requires_python", Some("\"><script>'&"));
    sent.send(&root, id).await.expect(201);
    let page = root.get(&format!("/projects/{id}/packages/pypi/simple/my-pkg")).await.expect(200);
    assert!(!page.text().contains("<script>"), "{}", page.text());
    assert!(page.text().contains("data-requires-python=\"&quot;&gt;&lt;script&gt;&#39;&amp;\""));
    assert_eq!(links(&page.text()).len(), 1);
    upload(&root, id, "my-pkg", "2.0").await.expect(201);
}

on_every_database![
    existing_file_is_refused,
    invalid_attributes_are_refused_and_nothing_is_stored,
    bodies_that_are_no_forms_are_refused,
    file_over_the_limit_is_refused with small_files(),
    markup_in_required_python_version_is_escaped,
];
