//! Generator tests: the emitted code for a small contract, and one failing input for each lint.

// Tests fail by panicking.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod lints;

use std::path::Path;

use generator::{emit, lint, load, lower};

/// Returns a contract with one operation of each kind, by file.
fn small() -> Vec<(&'static str, String)> {
    vec![
        ("openapi.yaml", include_str!("small/openapi.yaml").to_owned()),
        ("paths/keys.yaml", include_str!("small/keys.yaml").to_owned()),
        ("schemas/keys.yaml", include_str!("small/schemas.yaml").to_owned()),
        (
            "shared/parameters.yaml",
            include_str!("small/parameters.yaml").to_owned(),
        ),
        (
            "shared/headers.yaml",
            include_str!("small/headers.yaml").to_owned(),
        ),
        (
            "shared/responses.yaml",
            include_str!("small/responses.yaml").to_owned(),
        ),
        (
            "shared/schemas.yaml",
            include_str!("small/shared_schemas.yaml").to_owned(),
        ),
        (
            "shared/security.yaml",
            "bearer: {type: http, scheme: bearer, description: A token.}\nscim_token: {type: http, scheme: bearer, description: Another.}\n".to_owned(),
        ),
    ]
}

/// Loads a contract from files.
fn loaded(files: &[(&str, String)]) -> Result<load::Document, Vec<load::Fault>> {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }
    load::load(folder.path())
}

#[test]
fn the_small_contract_emits_this_code() {
    let document = loaded(&small()).expect("a document");
    assert_eq!(lint::lint(&document), []);
    let contract = lower::lower(&document).expect("a contract");
    let rust = emit::emit(&contract).expect("Rust");
    insta::assert_snapshot!("small", rust);
}

#[test]
fn the_committed_bundle_is_fresh() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let generated = generator::compile(&root.join("openapi")).expect("a contract");
    let committed = std::fs::read_to_string(root.join("openapi/dist/openapi.json")).unwrap_or_default();
    assert!(
        committed == generated.json,
        "openapi/dist/openapi.json is stale: run `just openapi`"
    );
}

#[test]
fn names_said_twice_are_refused_with_their_file() {
    let mut files = small();
    let path = files[1].1.clone();
    files.push(("paths/other.yaml", path));
    let faults = loaded(&files).err().expect("faults");
    assert!(
        faults
            .iter()
            .any(|fault| fault.file == "paths/other.yaml" && fault.message.contains("twice"))
    );
    let mut files = small();
    files[2].1.push_str("\nKey: {type: object}\n");
    let faults = loaded(&files).err().expect("faults");
    assert_eq!(faults[0].file, "schemas/keys.yaml");
}
