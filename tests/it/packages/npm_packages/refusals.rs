//! Refused uploads of npm packages.

use reqwest::Method;
use serde_json::{Value, json};

use super::{counts, document, path, publish};
use crate::packages::small_files;
use crate::support::spaces::project;
use crate::support::{TestServer, on_every_database};

async fn existing_version_is_refused(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    publish(&root, id, "@engines/web", "1.0.0").await.expect(200);
    let refused = root.put(&path(id, "@engines/web"), document("@engines/web", "1.0.0", b"other")).await.expect(403);
    assert_eq!(refused.message(), "403 Forbidden - Package already exists.");
    assert_eq!(counts(&server).await, (1, 1, 1));
    // Build metadata and other projects are different versions.
    publish(&root, id, "@engines/web", "1.0.0+1").await.expect(200);
    let other = project(&root, "other", json!({})).await;
    publish(&root, other, "@engines/web", "1.0.0").await.expect(200);
}

async fn invalid_documents_are_refused_and_nothing_is_stored(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let valid = document("tiny", "1.0.0", b"archive");
    let manifest = "/versions/1.0.0";
    for (pointer, value, expected) in [
        ("/name", json!("other"), "name of the manifest differs from the document"),
        ("/name", json!("../tiny"), "name must have at most 214 characters"),
        ("/versions", json!({}), "versions is missing"),
        ("/versions", json!({ "latest": {} }), "version must be a semantic version"),
        ("/versions", json!({ "1.0.0": {}, "1.0.1": {} }), "versions must contain one version"),
        ("/dist-tags", json!({ "1.0.0": "1.0.0" }), "dist-tags has an invalid tag"),
        ("/dist-tags", json!({ "latest": "2.0.0" }), "dist-tags must contain only the version"),
        ("/_attachments/tiny-1.0.0.tgz/data", json!(""), "Attachment data is empty."),
        ("/_attachments/tiny-1.0.0.tgz/data", json!("a b"), "the attachment is not valid Base64"),
        ("/_attachments/tiny-1.0.0.tgz/length", json!(8), "the attachment does not have the size"),
        ("/_attachments", json!({ "a": {}, "b": {} }), "the document has several attachments"),
        ("/versions/1.0.0/dist/shasum", json!("0"), "dist.shasum is not the digest of the attachment"),
        ("/versions/1.0.0/dist/integrity", json!("sha512-AAAA"), "dist.integrity is not the digest of the attachment"),
        (manifest, json!({ "dependencies": ["a"] }), "dependencies must be an object of strings"),
        (manifest, json!({ "bin": "a\0b" }), "bin must not contain NUL"),
        (manifest, json!({ "bin": "x".repeat(20_000) }), "the manifest is too large"),
        (manifest, json!({ "deprecated": 1 }), "deprecated must be a string"),
        (manifest, json!({ "version": "1.0.1" }), "version of the manifest differs from the document"),
    ] {
        let mut sent = valid.clone();
        *sent.pointer_mut(pointer).expect("an attribute") = value;
        let refused = root.put(&path(id, "tiny"), sent).await.expect(400);
        assert!(refused.message().starts_with(expected), "{pointer}: {}", refused.message());
    }
    let mut whole = valid.clone();
    whole["name"] = json!("other");
    whole["versions"]["1.0.0"]["name"] = json!("other");
    let refused = root.put(&path(id, "tiny"), whole).await.expect(400);
    assert_eq!(refused.message(), "name of the document differs from the path");
    assert_eq!(counts(&server).await, (0, 0, 0));
    // Digests of other algorithms are not compared.
    let mut sent = valid;
    sent["versions"]["1.0.0"]["dist"] = json!({ "integrity": "sha1-AAAA" });
    root.put(&path(id, "tiny"), sent).await.expect(200);
}

async fn bodies_that_are_no_documents_are_refused(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let send = async |media_type: &str, body: Vec<u8>| {
        let request = root.request(Method::PUT, &path(id, "tiny")).header("content-type", media_type).body(body);
        root.send(request).await
    };
    for body in
        ["", "[]", "null", "{", "{\"name\":\"tiny\"", "{\"name\":\"tiny\",\"name\":\"tiny\"}", "{} {}", "\u{FEFF}{}"]
    {
        send("application/json", body.into()).await.expect(400);
    }
    let deep = format!("{{\"a\":{}}}", "[".repeat(100_000));
    let refused = send("application/json", deep.into()).await.expect(400);
    assert!(refused.message().starts_with("the document is nested too deeply"), "{}", refused.message());
    let large = json!({ "name": "x".repeat(4 << 20) }).to_string();
    let refused = send("application/json", large.into()).await.expect(400);
    assert!(refused.message().starts_with("the document without its attachment is too large"));
    let many = format!("{{\"a\":[{}0]}}", "0,".repeat(250_000));
    let refused = send("application/json", many.into()).await.expect(400);
    assert!(refused.message().contains("too many values"), "{}", refused.message());
    send("text/plain", document("tiny", "1.0.0", b"x").to_string().into()).await.expect(400);
    send("application/json", vec![0xFF; 100]).await.expect(400);
    assert_eq!(counts(&server).await, (0, 0, 0));
}

async fn invalid_names_are_refused(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    for name in
        [".a", "_a", "-a", "a~", "a%20b", "a%00", "%C3%A4", "node_modules", "@a", "a%2Fb", "@a%2F..", "%2e%2e%2f"]
    {
        let url = format!("/projects/{id}/packages/npm/{name}");
        for response in [root.get(&url).await, root.put(&url, document("tiny", "1.0.0", b"x")).await] {
            assert_eq!(response.status, 400, "{name}: {}", response.text());
        }
    }
    let long = "a".repeat(215);
    root.get(&format!("/projects/{id}/packages/npm/{long}")).await.expect(400);
    root.get(&format!("/projects/{id}/packages/npm/{}", &long[1..])).await.expect(404);
}

async fn archive_over_the_limit_is_refused(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let send = async |size: usize| root.put(&path(id, "tiny"), document("tiny", "1.0.0", &vec![7; size])).await;
    // The limit of files is 100,000 bytes, and bodies can be 64 KiB larger.
    send(200_000).await.expect(413);
    send(100_001).await.expect(413);
    assert_eq!(counts(&server).await, (0, 0, 0));
    send(100_000).await.expect(200);
}

async fn manifest_of_an_attachment_is_required(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let mut sent = document("tiny", "1.0.0", b"x");
    sent["versions"]["1.0.0"] = Value::Null;
    let refused = root.put(&path(id, "tiny"), sent).await.expect(400);
    assert_eq!(refused.message(), "versions[1.0.0] must be an object");
}

on_every_database![
    existing_version_is_refused,
    invalid_documents_are_refused_and_nothing_is_stored,
    bodies_that_are_no_documents_are_refused,
    invalid_names_are_refused,
    archive_over_the_limit_is_refused with small_files(),
    manifest_of_an_attachment_is_required,
];
