//! Generator tests: the emitted code for a small contract, and one failing input for each lint.

// Tests fail by panicking.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod groups;
mod lints;
mod portal;
mod samples;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use generator::portal::code_samples;
use generator::{emit, lint, load, lower, publish, table};
use serde_json::Value;

/// Maximum number of generated lines in the server package for each operation.
const MAX_ROUTE_LINES: usize = 30;
/// Maximum number of generated lines in all packages for each operation.
const MAX_LINES: usize = 65;

/// Published documents that are committed, so that reviews show changes of the API.
const COMMITTED: [&str; 2] = ["openapi.json", "openapi-3.1.json"];

/// Returns the folder of the server's contract.
fn contract_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../openapi")
}

/// Returns the folder of the style sheet and the script of the portal.
fn assets_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/portal")
}

/// Returns a contract with one operation of each kind, by file.
fn small() -> Vec<(&'static str, String)> {
    vec![
        ("openapi.yaml", include_str!("small/openapi.yaml").to_owned()),
        ("paths/keys.yaml", include_str!("small/keys.yaml").to_owned()),
        ("schemas/keys.yaml", include_str!("small/schemas.yaml").to_owned()),
        (
            "webhooks/keys.yaml",
            include_str!("small/webhooks.yaml").to_owned(),
        ),
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
fn small_contract_emits_types_routes_and_table() {
    let document = loaded(&small()).expect("a document");
    assert_eq!(lint::lint(&document), []);
    let contract = lower::lower(&document).expect("a contract");
    insta::assert_snapshot!("types", emit::types(&contract).expect("Rust"));
    insta::assert_snapshot!("routes", emit::routes(&contract).expect("Rust"));
    let table: Value =
        serde_json::from_str(&table::table(&contract, &BTreeMap::new()).expect("a table")).expect("JSON");
    insta::assert_json_snapshot!("table", table);
}

#[test]
fn table_rejects_input_that_contains_itself() {
    let mut files = small();
    let schemas = &mut files[2].1;
    *schemas = schemas.replacen("KeyCreate:\n", "KeyPart:\n  type: object\n  description: A part.\n  properties:\n    part: {$ref: '#/components/schemas/KeyPart'}\nKeyCreate:\n", 1);
    *schemas = schemas.replacen(
        "    kind: {$ref: '#/components/schemas/KeyKind'}\n    level",
        "    part: {$ref: '#/components/schemas/KeyPart'}\n    level",
        1,
    );
    let document = loaded(&files).expect("a document");
    let contract = lower::lower(&document).expect("a contract");
    let error = table::table(&contract, &BTreeMap::new()).expect_err("a recursive type");
    assert_eq!(error, "the input schema KeyPart contains itself");
}

/// The compiler parses and expands this code in each build of its package.
#[test]
fn generated_code_is_small() {
    let generated = generator::compile(&contract_folder(), &assets_folder()).expect("a contract");
    let (types, routes) = (generated.types.lines().count(), generated.routes.lines().count());
    let table: Value = serde_json::from_str(&generated.table).expect("JSON");
    let operations = table["operations"].as_array().map_or(0, Vec::len);
    assert!(
        routes <= MAX_ROUTE_LINES * operations,
        "the routes of {operations} operations have {routes} lines"
    );
    assert!(
        types + routes <= MAX_LINES * operations,
        "the generated code of {operations} operations has {} lines",
        types + routes
    );
}

#[test]
fn committed_documents_are_current() {
    let generated = generator::compile(&contract_folder(), &assets_folder()).expect("a contract");
    for file in COMMITTED {
        let path = contract_folder().join("dist").join(file);
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        let mut documents = generated.documents.iter();
        let current = documents.find(|document| document.file == file).expect(file);
        assert!(
            committed == current.text,
            "openapi/dist/{file} is stale: run `just openapi`"
        );
    }
}

#[test]
fn configuration_of_stainless_contains_every_operation() {
    let generated = generator::compile(&contract_folder(), &assets_folder()).expect("a contract");
    let mut files = generated.portal.iter();
    let file = files.find(|file| file.path == "docs/stainless.yaml");
    let configuration: Value = yaml_serde::from_slice(&file.expect("a configuration").content).expect("YAML");
    let resources = configuration["resources"]
        .as_object()
        .expect("resources")
        .values();
    let methods = resources.flat_map(|resource| resource["methods"].as_object().expect("methods").values());
    let methods = methods.map(|method| &method["endpoint"]);
    let unspecified = configuration["unspecified_endpoints"].as_array().expect("a list");
    let mut endpoints: Vec<&str> = methods.chain(unspecified).filter_map(Value::as_str).collect();
    endpoints.sort_unstable();
    let before = endpoints.len();
    endpoints.dedup();
    let table: Value = serde_json::from_str(&generated.table).expect("JSON");
    let operations = table["operations"].as_array().expect("operations").iter();
    let others = operations
        .filter(|operation| operation["method"] != "HEAD")
        .count();
    assert_eq!((before, before), (endpoints.len(), others));
}

#[test]
fn small_contract_is_published_in_both_versions() {
    let mut files = small();
    let schemas = &mut files[2].1;
    *schemas = schemas.replace("What kind of key it is.", "'Kind: `ssh`, `gpg` or `2fa`.'");
    let document = loaded(&files).expect("a document");
    let published = publish::publish(&document.root, &code_samples(&document.root, None))
        .expect("documents")
        .documents;
    let files: Vec<&str> = published.iter().map(|document| document.file.as_str()).collect();
    let expected = ["openapi", "openapi-sdk", "openapi-3.1", "openapi-3.1-sdk"];
    let expected = expected.map(|name| [format!("{name}.json"), format!("{name}.yaml")]);
    assert_eq!(files, expected.concat());
    let parsed: Value = serde_json::from_str(&published[4].text).expect("JSON");
    let kind = &parsed["components"]["schemas"]["Key"]["properties"]["replaced_kind"];
    assert_eq!(kind["oneOf"][1]["type"], "null");
    let created = &parsed["paths"]["/api/v4/projects/{id}/keys"]["post"];
    assert_eq!(created["x-speakeasy-name-override"], "create");
    let languages = created["x-codeSamples"]
        .as_array()
        .expect("samples")
        .iter()
        .map(|one| &one["lang"]);
    assert_eq!(languages.collect::<Vec<_>>(), ["Shell", "Python", "JavaScript"]);
    for other in [0, 2, 6] {
        assert!(
            !published[other].text.contains("x-codeSamples"),
            "{}",
            published[other].file
        );
    }
    // SDK generators describe values in comments. The document in 3.0 is authored, so only its form for SDKs has hints.
    for (at, document) in published.iter().enumerate() {
        let is_described = document.text.contains("x-enum-descriptions");
        assert_eq!(is_described, at >= 2, "{}", document.file);
    }
    let link = &created["responses"]["201"]["links"]["delete_key"]["parameters"];
    assert_eq!(link["key_id"], "$response.body#/id");
    let webhook = &parsed["webhooks"]["created"]["post"];
    assert_eq!(webhook["operationId"], "receive_created");
}

#[test]
fn load_rejects_duplicate_names_with_their_file() {
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
