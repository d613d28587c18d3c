//! Tests of the parser of npm documents.

use std::convert::Infallible;
use std::io::Cursor;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::*;

fn read(text: &str) -> Result<(NpmDocument, Vec<u8>), String> {
    let mut archive = Vec::new();
    let unlimited = |_| Ok::<(), Infallible>(());
    read_document(&mut Cursor::new(text), &mut archive, &unlimited)
        .map(|document| (document, archive))
        .map_err(|error| error.to_string())
}

fn fault(document: &Value) -> String {
    read(&document.to_string()).expect_err("an invalid document")
}

fn published(document: &Value) -> Publication {
    match read(&document.to_string()) {
        Ok((NpmDocument::Publish(publication), _)) => *publication,
        other => panic!("{other:?}"),
    }
}

/// Returns the document that publishes an archive.
fn publish_document(archive: &[u8]) -> Value {
    json!({
        "_id": "@engines/web",
        "name": "@engines/web",
        "dist-tags": {"next": "1.0.0"},
        "versions": {"1.0.0": {
            "name": "@engines/web",
            "version": "1.0.0",
            "readme": "# Web",
            "dependencies": {"a": "^1.0.0"},
            "bin": {"web": "cli.js"},
            "dist": {"shasum": "abc", "integrity": "sha512-x", "tarball": "http://example.com/x"},
        }},
        "access": null,
        "_attachments": {"@engines/web-1.0.0.tgz": {
            "content_type": "application/octet-stream",
            "data": STANDARD.encode(archive),
            "length": archive.len(),
        }},
    })
}

#[test]
fn publication_contains_archive_tags_and_kept_attributes() {
    let bytes: Vec<u8> = (0..300_000_u32).map(|number| (number % 251) as u8).collect();
    let (document, archive) = read(&publish_document(&bytes).to_string()).expect("a document");
    assert_eq!(archive, bytes);
    let NpmDocument::Publish(publication) = document else {
        panic!("{document:?}");
    };
    assert_eq!(publication.name.as_str(), "@engines/web");
    assert_eq!(publication.version.as_str(), "1.0.0");
    assert_eq!(
        publication.tags.iter().map(NpmTag::as_str).collect::<Vec<_>>(),
        ["next"]
    );
    assert_eq!(
        Value::Object(publication.manifest),
        json!({"dependencies": {"a": "^1.0.0"}, "bin": {"web": "cli.js"}})
    );
    assert_eq!(
        publication.archive,
        Archive {
            size: 300_000,
            shasum: Some("abc".to_owned()),
            integrity: Some("sha512-x".to_owned()),
        }
    );
    assert_eq!(publication.deprecated, None);
}

#[test]
fn publication_without_tags_is_tagged_latest() {
    for tags in [json!(null), json!({})] {
        let mut document = publish_document(b"archive");
        document["dist-tags"] = tags;
        assert_eq!(published(&document).tags, [NpmTag::latest()]);
    }
}

#[test]
fn version_with_install_script_has_attribute() {
    for (scripts, expected) in [
        (
            json!({"preinstall": "node a.js"}),
            json!({"hasInstallScript": true}),
        ),
        (json!({"install": "node a.js"}), json!({"hasInstallScript": true})),
        (
            json!({"postinstall": "node a.js"}),
            json!({"hasInstallScript": true}),
        ),
        (json!({"postinstall": ""}), json!({})),
        (json!({"test": "node a.js", "prepare": "node b.js"}), json!({})),
        (json!({"install": 1}), json!({})),
        (json!(["install"]), json!({})),
        (json!(null), json!({})),
    ] {
        let mut document = publish_document(b"archive");
        let gypfile = json!(false);
        document["versions"]["1.0.0"] = json!({"scripts": scripts, "gypfile": gypfile});
        let mut expected = expected;
        expected["gypfile"] = gypfile;
        assert_eq!(
            Value::Object(published(&document).manifest),
            expected,
            "{scripts}"
        );
    }
    let mut document = publish_document(b"archive");
    document["versions"]["1.0.0"] = json!({"scripts": {"install": "a"}, "hasInstallScript": false});
    assert_eq!(
        Value::Object(published(&document).manifest),
        json!({"hasInstallScript": true})
    );
}

#[test]
fn archive_is_decoded_in_pieces_of_any_length() {
    let mut document = publish_document(&[0xFF; 1_000]).to_string();
    // Some encoders escape slashes.
    document = document.replacen("/////", "\\/\\////", 1);
    for piece in [1, 2, 3, 5, 7, 64] {
        let mut archive = Vec::new();
        let mut scanner = DocumentScanner::new(&mut archive);
        for bytes in document.as_bytes().chunks(piece) {
            scanner.push::<Infallible>(bytes).expect("a document");
        }
        let scanned = scanner.finish::<Infallible>().expect("a document");
        assert_eq!(scanned.archive_bytes, Some(1_000));
        assert!(scanned.text.len() < 600, "{}", scanned.text.len());
        assert_eq!(archive, [0xFF; 1_000]);
    }
}

#[test]
fn document_without_attachments_changes_deprecations() {
    let document = json!({
        "name": "web",
        "versions": {
            "1.0.0": {"name": "web", "version": "1.0.0", "deprecated": "use 2"},
            "1.1.0": {"deprecated": ""},
            "1.2.0": {"name": "web"},
        },
    });
    let (found, archive) = read(&document.to_string()).expect("a document");
    let change = |version: &str, message: Option<&str>| Deprecation {
        version: NpmVersion::parse(version).expect("a version"),
        message: message.map(str::to_owned),
    };
    let changes = vec![change("1.0.0", Some("use 2")), change("1.1.0", None)];
    let name = NpmName::parse("web").expect("a name");
    assert_eq!(found, NpmDocument::Deprecate { name, changes });
    assert!(archive.is_empty());
}

#[test]
fn large_manifests_of_deprecated_versions_are_skipped() {
    let manifest = |number: u32| {
        let nested = json!({"deprecated": "nested", "x": ["a\"}", {"b": 1}], "y": {}});
        let mut manifest = json!({"a": "x".repeat(20_000), "b": nested, "z": number});
        manifest["deprecated"] = json!(format!("use {number}"));
        manifest["name"] = json!("web");
        (format!("{number}.0.0"), manifest)
    };
    let versions: Map<String, Value> = (0..300).map(manifest).collect();
    let document = json!({"name": "web", "versions": versions, "time": {"modified": "now"}}).to_string();
    assert!(document.len() > MAX_DOCUMENT_BYTES);
    let (found, _) = read(&document).expect("a document");
    let NpmDocument::Deprecate { changes, .. } = found else {
        panic!("{found:?}");
    };
    assert_eq!(changes.len(), 300);
    for change in &changes {
        let major = change.version.as_str().strip_suffix(".0.0").expect("a version");
        assert_eq!(change.message, Some(format!("use {major}")));
    }
    let text =
        r#"{"name":"web","versions":{"1.0.0":{},"2.0.0":{"x":1,"\u0064eprecated":"old"},"3.0.0":{"x":[]}}}"#;
    let (found, _) = read(text).expect("a document");
    let NpmDocument::Deprecate { changes, .. } = found else {
        panic!("{found:?}");
    };
    assert!(matches!(changes.as_slice(), [change] if change.message.as_deref() == Some("old")));
    // The nesting is limited in omitted values too.
    let deep = format!(r#"{{"versions":{{"1.0.0":{{}},"2.0.0":{{"a":{}"#, "[".repeat(62));
    let fault = read(&deep).expect_err("a deep document");
    assert!(fault.starts_with("the document is nested too deeply"), "{fault}");
}

#[test]
fn archive_must_be_valid_base64_of_announced_length() {
    let document = |data: Value, length: Value| {
        let mut document = publish_document(b"");
        document["_attachments"] = json!({"a.tgz": {"data": data, "length": length}});
        fault(&document)
    };
    for data in [
        "A", "AA", "AAA", "AA=", "====", "AAAA=", "AA==AAAA", "AAAA\n", "AA-_", "ÄÄÄÄ", "A\\AA",
    ] {
        assert_eq!(
            document(json!(data), json!(null)),
            "the attachment is not valid Base64",
            "{data}"
        );
    }
    for data in [json!(""), json!(null), json!(7), json!({"x": "AAAA"})] {
        assert_eq!(document(data, json!(null)), "Attachment data is empty.");
    }
    for length in [json!(2), json!("3"), json!(null), json!(-3)] {
        assert_eq!(
            document(json!("AAAA"), length),
            "the attachment does not have the size of its attribute length"
        );
    }
}

#[test]
fn document_has_one_attachment_and_one_version() {
    let mut document = publish_document(b"archive");
    document["_attachments"]["b.tgz"] = json!({"data": "AAAA"});
    assert_eq!(
        fault(&document),
        "the document has several attachments (maximum is 1)"
    );
    document["_attachments"]["b.tgz"] = json!({"data": 1});
    assert_eq!(
        fault(&document),
        "the document has several attachments (maximum is 1)"
    );
    let mut document = publish_document(b"archive");
    document["versions"]["1.0.1"] = json!({});
    assert!(fault(&document).contains("one version"));
    for versions in [json!({}), json!(null)] {
        document["versions"] = versions;
        assert!(fault(&document).starts_with("versions "));
    }
}

#[test]
fn provenance_attachment_is_ignored() {
    let provenance = json!({"content_type": "application/json", "data": "{\"a\": \"b\"}", "length": 10});
    let archive = publish_document(b"archive")["_attachments"]["@engines/web-1.0.0.tgz"].clone();
    for attachments in [
        json!({"a-1.0.0.tgz": archive, "b-1.0.0.sigstore": provenance}),
        json!({"a-1.0.0.sigstore": provenance, "b-1.0.0.tgz": archive}),
    ] {
        let mut document = publish_document(b"");
        document["_attachments"] = attachments;
        let (found, bytes) = read(&document.to_string()).expect("a document");
        assert!(matches!(found, NpmDocument::Publish(_)), "{found:?}");
        assert_eq!(bytes, b"archive");
    }
    let mut document = publish_document(b"");
    document["_attachments"] = json!({"a-1.0.0.sigstore": provenance});
    assert_eq!(fault(&document), "Attachment data is empty.");
}

#[test]
fn data_outside_of_attachments_is_not_an_archive() {
    for (text, expected) in [
        (r#"{"_attachments":{"a":{"data":"AAAA"}}}"#, "AAA"),
        (r#"{"_attachments":{"a":{"x":{"data":"AAAA"}}}}"#, ""),
        (r#"{"_attachments":{"data":"AAAA"}}"#, ""),
        (r#"{"_attachments":[{"data":"AAAA"}]}"#, ""),
        (r#"{"_attachments":{"a":["data","AAAA"]}}"#, ""),
        (r#"{"attachments":{"a":{"data":"AAAA"}}}"#, ""),
        (r#"[{"_attachments":{"a":{"data":"AAAA"}}}]"#, ""),
        (r#"{"_attachments":{"a":{"data":{"data":"AAAA"}}}}"#, ""),
        (r#"{"_attachments":{},"b":{"c":{"data":"AAAA"}}}"#, ""),
        (r#"{"_attachments":{"a":{"\u0064ata":"AAAA"}}}"#, ""),
        (r#"{"_attachments":{"a":{"\\data":"AAAA"}}}"#, ""),
    ] {
        let mut archive = Vec::new();
        let mut scanner = DocumentScanner::new(&mut archive);
        scanner.push::<Infallible>(text.as_bytes()).expect("a document");
        let scanned = scanner.finish::<Infallible>().expect("a document");
        let decoded = !expected.is_empty();
        assert_eq!(scanned.archive_bytes.is_some(), decoded, "{text}");
        assert_eq!(scanned.text == text.as_bytes(), !decoded, "{text}");
        let expected = if decoded {
            STANDARD.decode("AAAA").expect("bytes")
        } else {
            Vec::new()
        };
        assert_eq!(archive, expected, "{text}");
    }
}

#[test]
fn invalid_attributes_are_rejected() {
    for (pointer, value, expected) in [
        ("/name", json!("../a"), "name must have"),
        ("/name", json!(7), "name must be a string"),
        ("/name", json!("other"), "name of the manifest differs"),
        (
            "/versions",
            json!({"1.0": {}}),
            "version must be a semantic version",
        ),
        (
            "/versions",
            json!({"1.0.1": {"version": "1.0.0"}}),
            "dist-tags must contain only",
        ),
        (
            "/versions/1.0.0/version",
            json!("1.0.1"),
            "version of the manifest differs",
        ),
        ("/versions/1.0.0", json!([]), "versions[1.0.0] must be an object"),
        (
            "/versions/1.0.0/dependencies",
            json!(["a"]),
            "dependencies must be an object of strings",
        ),
        (
            "/versions/1.0.0/dependencies/a",
            json!(1),
            "dependencies must be an object of strings",
        ),
        (
            "/versions/1.0.0/bin",
            json!({"a": "\0"}),
            "bin must not contain NUL",
        ),
        (
            "/versions/1.0.0/bin",
            json!("x".repeat(20_000)),
            "the manifest is too large",
        ),
        (
            "/dist-tags",
            json!({"v1": "1.0.0"}),
            "dist-tags has an invalid tag",
        ),
        (
            "/dist-tags",
            json!({"next": "2.0.0"}),
            "dist-tags must contain only",
        ),
        ("/dist-tags", json!([]), "dist-tags must be an object"),
        ("/_attachments", json!([1]), "_attachments must be an object"),
    ] {
        let mut document = publish_document(b"archive");
        *document.pointer_mut(pointer).expect("an attribute") = value;
        let text = fault(&document);
        assert!(text.starts_with(expected), "{pointer}: {text}");
    }
    let deprecated =
        |message: Value| fault(&json!({"name": "a", "versions": {"1.0.0": {"deprecated": message}}}));
    assert_eq!(deprecated(json!(1)), "deprecated must be a string");
    assert_eq!(deprecated(json!("a\0")), "deprecated must not contain NUL");
    assert!(deprecated(json!("x".repeat(4_097))).starts_with("deprecated is too long"));
}

#[test]
fn malformed_large_and_deep_documents_are_rejected() {
    let open = "[".repeat(65);
    let large = format!(r#"{{"name":"{}"}}"#, "x".repeat(4 << 20));
    for (text, expected) in [
        ("", "the body is not valid JSON"),
        ("[]", "the body must be an object"),
        ("{", "the body is not valid JSON: it is incomplete"),
        (r#"{"name":"a"#, "the body is not valid JSON: it is incomplete"),
        (
            r#"{"_attachments":{"a":{"data":"AAAA"#,
            "the body is not valid JSON: it is incomplete",
        ),
        (r#"{"a":1,"a":2}"#, "the body is not valid JSON: duplicate key"),
        (r#"{"name":"a","versions":{}} {}"#, "the body is not valid JSON"),
        ("{}}", "the body is not valid JSON"),
        (open.as_str(), "the document is nested too deeply"),
        (large.as_str(), "the document without its attachment is too large"),
    ] {
        let fault = read(text).expect_err(&text[..text.len().min(40)]);
        assert!(fault.starts_with(expected), "{fault}");
    }
}

#[test]
fn failures_of_reader_writer_and_memory_are_reported() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("broken"))
        }
    }
    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::Error::other("broken"))
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let unlimited = |_| Ok::<(), Infallible>(());
    let read = read_document(&mut Broken, &mut Vec::new(), &unlimited);
    assert!(matches!(read, Err(DocumentError::Io(_))), "{read:?}");
    let document = publish_document(b"archive").to_string();
    let read = read_document(&mut Cursor::new(&document), &mut Broken, &unlimited);
    assert!(matches!(read, Err(DocumentError::Io(_))), "{read:?}");
    let versions: Map<String, Value> = (0..1_000)
        .map(|n| (format!("{n}.0.0"), json!({"deprecated": ""})))
        .collect();
    let many = json!({"name": "a", "versions": versions}).to_string();
    let exhausted = |_| Err("no memory is left");
    let read = read_document(&mut Cursor::new(&many), &mut Vec::new(), &exhausted);
    assert!(
        matches!(read, Err(DocumentError::Memory("no memory is left"))),
        "{read:?}"
    );
}
