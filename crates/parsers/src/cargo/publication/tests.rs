//! Tests of the body of `cargo publish`.

use std::convert::Infallible;

use serde_json::{Value, json};

use super::*;

fn body(metadata: &str, archive: &[u8]) -> Vec<u8> {
    let length = |size: usize| u32::try_from(size).expect("a length").to_le_bytes();
    [
        &length(metadata.len())[..],
        metadata.as_bytes(),
        &length(archive.len()),
        archive,
    ]
    .concat()
}

fn read(body: &[u8]) -> Result<Publication, String> {
    let unlimited = |_| Ok::<(), Infallible>(());
    read_publication(&mut &body[..], body.len() as u64, &unlimited).map_err(|error| error.to_string())
}

fn metadata() -> Value {
    json!({
        "name": "gear-ratio",
        "vers": "1.0.0+a",
        "deps": [],
        "features": {},
        "authors": ["Ada"],
        "readme": "# Gears\n",
        "license": "MIT",
        "links": null,
        "rust_version": null,
    })
}

fn read_metadata(metadata: &Value) -> Result<Publication, String> {
    read(&body(&metadata.to_string(), b"x"))
}

#[test]
fn metadata_becomes_a_line_of_the_index() {
    let mut sent = metadata();
    sent["links"] = json!("gears");
    sent["rust_version"] = json!("1.70");
    sent["features"] = json!({ "default": ["std"], "std": [], "fast": ["dep:simd", "teeth?/fast"] });
    sent["deps"] = json!([
        {
            "name": "teeth", "version_req": "^1.2", "features": ["a"], "optional": true, "default_features": false,
            "target": "cfg(unix)", "kind": "dev", "registry": "sparse+https://r.example.com/", "explicit_name_in_toml": "tooth",
        },
        { "name": "oil", "version_req": "*" },
    ]);
    let found = read_metadata(&sent).expect("a publication");
    assert_eq!(
        (found.name.as_str(), found.version.as_str()),
        ("gear-ratio", "1.0.0+a")
    );
    assert_eq!(found.archive_start, 8 + sent.to_string().len() as u64);
    assert_eq!(found.archive_size, 1);
    let line = found.entry.to_line().expect("a line");
    assert_eq!(IndexEntry::parse(&line).expect("an entry"), found.entry);
    let expected = json!({
        "name": "gear-ratio",
        "vers": "1.0.0+a",
        "deps": [
            {
                "name": "tooth", "req": "^1.2", "features": ["a"], "optional": true, "default_features": false,
                "target": "cfg(unix)", "kind": "dev", "registry": "sparse+https://r.example.com/", "package": "teeth",
            },
            {
                "name": "oil", "req": "*", "features": [], "optional": false, "default_features": true, "target": null,
                "kind": "normal", "registry": null, "package": null,
            },
        ],
        "cksum": "",
        "features": { "default": ["std"], "std": [] },
        "features2": { "fast": ["dep:simd", "teeth?/fast"] },
        "yanked": false,
        "links": "gears",
        "rust_version": "1.70",
        "v": 2,
    });
    assert_eq!(serde_json::from_str::<Value>(&line).expect("JSON"), expected);
}

#[test]
fn invalid_metadata_is_rejected() {
    let dependency = json!({ "name": "oil", "version_req": "1" });
    let with = |attribute: &str, value: Value| {
        let mut changed = dependency.clone();
        changed[attribute] = value;
        json!([changed])
    };
    for (attribute, value, expected) in [
        ("name", json!("gear ratio"), "name must start with a letter"),
        ("name", json!(1), "the metadata is invalid: invalid type"),
        ("vers", json!("1.0"), "vers must be a semantic version"),
        ("deps", json!(null), "the metadata is invalid"),
        (
            "deps",
            with("name", json!("../x")),
            "deps has an invalid name: \"../x\"",
        ),
        (
            "deps",
            with("version_req", json!("one")),
            "version_req of the dependency oil is invalid",
        ),
        (
            "deps",
            with("version_req", json!(format!("1{}", " ".repeat(300)))),
            "version_req of the dependency oil",
        ),
        (
            "deps",
            with("features", json!(["a\0"])),
            "features of the dependency oil is invalid",
        ),
        (
            "deps",
            with("target", json!("")),
            "target of the dependency oil is invalid",
        ),
        (
            "deps",
            with("registry", json!("x".repeat(2_049))),
            "registry of the dependency oil is invalid",
        ),
        (
            "deps",
            with("explicit_name_in_toml", json!("a\nb")),
            "explicit_name_in_toml of the dependency oil",
        ),
        (
            "deps",
            with("kind", json!("other")),
            "the metadata is invalid: unknown variant",
        ),
        ("features", json!({ "": [] }), "features has an invalid name"),
        (
            "features",
            json!({ "a": ["\u{7}"] }),
            "features has an invalid name",
        ),
        ("features", json!(["a"]), "the metadata is invalid"),
        ("links", json!("\0"), "links is invalid"),
        ("rust_version", json!("x".repeat(256)), "rust_version is invalid"),
    ] {
        let mut sent = metadata();
        sent[attribute] = value;
        let found = read_metadata(&sent).err().unwrap_or_default();
        assert!(found.starts_with(expected), "{attribute}: {found}");
    }
    let many: Vec<Value> = (0..2_000).map(|_| dependency.clone()).collect();
    let mut sent = metadata();
    sent["deps"] = json!(many);
    let found = read_metadata(&sent).err().unwrap_or_default();
    assert!(
        found.starts_with("the dependencies and features are too large"),
        "{found}"
    );
    for text in [
        "",
        "[]",
        "{}",
        "null",
        "{",
        "{\"name\":\"a\",\"name\":\"a\"}",
        &"[".repeat(100_000),
    ] {
        let found = read(&body(text, b"x")).err().unwrap_or_default();
        assert!(
            found.starts_with("the metadata is invalid"),
            "{text:.20}: {found}"
        );
    }
}

#[test]
fn lengths_must_match_the_body() {
    let text = metadata().to_string();
    let complete = body(&text, b"archive");
    assert!(read(&complete).is_ok());
    for length in 0..complete.len() {
        let found = read(&complete[..length]).err().unwrap_or_default();
        assert!(found.starts_with("the body "), "{length}: {found}");
    }
    assert!(read(&[&complete[..], b"x"].concat()).is_err());
    let found = read(&[0xFF; 100]).err().unwrap_or_default();
    assert!(found.starts_with("the metadata is too large"), "{found}");
    let mut long = (MAX_METADATA_BYTES - 1).to_le_bytes().to_vec();
    long.push(b'{');
    assert_eq!(read(&long).err().as_deref(), Some("the body is incomplete"));
}
