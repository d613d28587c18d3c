//! The published documents: examples, null, links, names of methods, and the documents for SDK generators.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use boon::Draft;
use contract::document::{Extent, Format, Version, document_text};
use serde_json::{Map, Value, json};

use crate::support::schemas::CompiledSchemas;

/// Operations that create a resource without a path of its own, or a path that does not extend theirs.
const WITHOUT_LINKS: [&str; 12] = [
    "add_epic_issue",
    "add_issue_spent_time",
    "add_merge_request_spent_time",
    "create_commit_comment",
    "create_commit_status",
    "create_fork_relation",
    "create_issue_todo",
    "create_merge_request_todo",
    "create_public_deploy_key",
    "create_recovery_codes",
    "create_status_check_response",
    "create_vulnerability_report",
];

/// The complete document in OpenAPI 3.1.
static DERIVED: LazyLock<Value> = LazyLock::new(|| parsed(Version::V3_1, Extent::Complete));

fn parsed(version: Version, extent: Extent) -> Value {
    serde_json::from_str(&document_text(version, extent, Format::Json).expect("a document")).expect("JSON")
}

fn compiled(schemas: Vec<Value>) -> CompiledSchemas {
    CompiledSchemas::new(Draft::V2020_12, &DERIVED["components"], schemas)
}

/// Returns all operations with their paths.
fn operations(root: &Value) -> Vec<(&str, &Value)> {
    let items = root["paths"].as_object().expect("paths").iter();
    let parts = items.flat_map(|(path, item)| {
        let parts = item.as_object().into_iter().flat_map(Map::values);
        parts.map(move |part| (path.as_str(), part))
    });
    parts.filter(|(_, part)| part["operationId"].is_string()).collect()
}

/// Returns the values of an object.
fn values(object: &Value) -> impl Iterator<Item = &Value> {
    object.as_object().into_iter().flat_map(Map::values)
}

/// Returns whether an operation has a query parameter of this name.
fn has_query(root: &Value, operation: &Value, name: &str) -> bool {
    let mut parameters = operation["parameters"].as_array().into_iter().flatten();
    parameters.any(|parameter| {
        let pointer = parameter["$ref"].as_str().map(|reference| reference.trim_start_matches('#'));
        let parameter = pointer.map_or(parameter, |pointer| root.pointer(pointer).expect("a parameter"));
        parameter["in"] == "query" && parameter["name"] == name
    })
}

fn placeholders(path: &str) -> BTreeSet<&str> {
    path.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name).collect()
}

fn examples_match_their_schemas_in_version_3_1() {
    let operations = operations(&DERIVED);
    let bodies = operations.iter().map(|(_, operation)| &operation["requestBody"]);
    let responses = operations.iter().flat_map(|(_, operation)| values(&operation["responses"]));
    let shared = values(&DERIVED["components"]["responses"]);
    let webhooks = values(&DERIVED["webhooks"]).map(|item| &item["post"]["requestBody"]);
    let contents = bodies.chain(responses).chain(shared).chain(webhooks).flat_map(|part| values(&part["content"]));
    let examples: Vec<(&Value, &Value)> =
        contents.filter_map(|media| Some((&media["schema"], media.get("example")?))).collect();
    let compiled = compiled(examples.iter().map(|(schema, _)| (*schema).clone()).collect());
    let results = examples.iter().enumerate().map(|(position, (_, example))| compiled.validate(position, example));
    let faults: Vec<String> = results.filter_map(Result::err).collect();
    assert!(examples.len() > 500, "only {} examples were found", examples.len());
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Adds all schemas that consist of a reference or null.
fn collect_nullable<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    if value["oneOf"][1] == json!({ "type": "null" }) {
        found.push(value);
    }
    match value {
        Value::Object(entries) => entries.values().for_each(|entry| collect_nullable(entry, found)),
        Value::Array(items) => items.iter().for_each(|item| collect_nullable(item, found)),
        _ => {}
    }
}

fn nullable_references_accept_null_in_version_3_1() {
    let mut found = Vec::new();
    collect_nullable(&DERIVED["components"]["schemas"], &mut found);
    assert!(found.len() >= 39, "only {} nullable references were found", found.len());
    let compiled = compiled(found.iter().map(|schema| (*schema).clone()).collect());
    for (position, schema) in found.iter().enumerate() {
        assert!(compiled.validate(position, &Value::Null).is_ok(), "{schema} rejects null");
        assert!(compiled.validate(position, &json!([])).is_err(), "{schema} accepts everything");
    }
}

/// The words of version 3.0 have no effect in 3.1, so none remains.
fn words_of_version_3_0_do_not_occur_in_version_3_1() {
    let text = document_text(Version::V3_1, Extent::Complete, Format::Json).expect("a document");
    for word in ["\"nullable\": ", "\"x-types\": ", "\"x-summary\": ", "\"x-webhooks\": "] {
        assert!(!text.contains(word), "{word}");
    }
    assert_eq!(DERIVED["info"]["license"]["identifier"], "MIT OR Apache-2.0");
    assert!(DERIVED["info"]["summary"].is_string());
    let webhooks: Vec<&String> = DERIVED["webhooks"].as_object().expect("webhooks").keys().collect();
    assert_eq!(webhooks, ["push", "tag_push", "issue", "merge_request", "note", "pipeline", "build", "release"]);
}

fn links_name_the_path_parameters_of_their_operation() {
    for version in [Version::V3_0, Version::V3_1] {
        let root = parsed(version, Extent::Complete);
        let operations = operations(&root);
        let paths: BTreeMap<&str, (&str, &Value)> = operations
            .iter()
            .map(|(path, operation)| (operation["operationId"].as_str().expect("an ID"), (*path, *operation)))
            .collect();
        let mut checked = 0;
        for (path, operation) in &operations {
            for response in values(&operation["responses"]) {
                let example = values(&response["content"]).next().map_or(&Value::Null, |media| &media["example"]);
                for link in values(&response["links"]) {
                    let (target, linked) = paths[link["operationId"].as_str().expect("an ID")];
                    let parameters = link["parameters"].as_object().expect("parameters");
                    let names: BTreeSet<&str> = parameters.keys().map(String::as_str).collect();
                    let mut known = placeholders(target);
                    known.extend(names.iter().copied().filter(|name| has_query(&root, linked, name)));
                    assert_eq!(names, known, "{path} -> {target}");
                    for expression in parameters.values().map(|value| value.as_str().expect("an expression")) {
                        let known = match expression.strip_prefix("$request.path.") {
                            Some(name) => placeholders(path).contains(name),
                            None => {
                                let pointer = expression.strip_prefix("$response.body#").expect("a pointer");
                                example.pointer(pointer).is_some_and(|value| value.is_string() || value.is_number())
                            }
                        };
                        assert!(known, "{path}: {expression} has no value");
                    }
                    checked += 1;
                }
            }
        }
        assert!(checked > 140, "only {checked} links were found");
    }
}

fn operations_that_create_a_resource_have_links() {
    let missing = operations(&DERIVED).into_iter().filter(|(_, operation)| {
        let id = operation["operationId"].as_str().unwrap_or_default();
        let creates = id.starts_with("create_") || id.starts_with("add_");
        creates && values(&operation["responses"]).all(|response| response["links"].is_null())
    });
    let missing: BTreeSet<&str> =
        missing.map(|(_, operation)| operation["operationId"].as_str().unwrap_or_default()).collect();
    assert_eq!(missing, BTreeSet::from(WITHOUT_LINKS));
}

fn sdk_methods_have_distinct_names() {
    let mut names = BTreeSet::new();
    for (_, operation) in operations(&DERIVED) {
        let group = operation["x-speakeasy-group"].as_str().expect("a group");
        let name = operation["x-speakeasy-name-override"].as_str().expect("a name");
        assert!(names.insert((group, name)), "{group}.{name}");
        assert_eq!(operation["x-fern-sdk-group-name"], json!([group]));
        assert_eq!(operation["x-fern-sdk-method-name"], name);
    }
    for known in [("projects", "list"), ("projects", "get"), ("branches", "protect"), ("issues", "list_project_issues")]
    {
        assert!(names.contains(&known), "{known:?}");
    }
}

fn sdk_documents_have_no_revalidation_and_two_ways_to_send_a_token() {
    for version in [Version::V3_0, Version::V3_1] {
        let root = parsed(version, Extent::Sdk);
        assert_eq!(root["security"], json!([{ "bearer": [] }, { "private_token_header": [] }]));
        let schemes = root["components"]["securitySchemes"].as_object().expect("schemes");
        assert_eq!(
            schemes.keys().collect::<Vec<_>>(),
            ["bearer", "private_token_header", "job_token_header", "scim_token"]
        );
        assert!(root["components"]["parameters"]["IfNoneMatch"].is_null());
        assert!(root["components"]["schemas"]["Error"].is_null());
        assert!(root["components"]["schemas"]["ApiError"].is_object());
        for (_, operation) in operations(&root).into_iter().filter(|(_, one)| one["security"].is_array()) {
            for requirement in operation["security"].as_array().into_iter().flatten() {
                assert!(requirement.as_object().is_some_and(|one| one.len() < 2), "{}", operation["operationId"]);
            }
        }
    }
}

/// Returns a path with a wildcard in place of each placeholder.
fn with_wildcards(path: &str) -> String {
    let segments = path.split('/').map(|part| if part.starts_with([':', '{']) { "*" } else { part });
    segments.collect::<Vec<_>>().join("/")
}

fn requests_in_the_guide_on_limitations_have_no_operation() {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi/guides/limitations.md");
    let guide = std::fs::read_to_string(guide).expect("the guide");
    let (_, table) = guide.split_once("## Requests without an operation").expect("the table");
    let paths: Vec<String> =
        contract::table::operations().iter().map(|operation| with_wildcards(operation.path)).collect();
    let mut checked = 0;
    for row in table.lines().filter_map(|line| line.strip_prefix("| ")).skip(1) {
        let requests = row.split(" | ").nth(1).expect("a column with requests");
        for request in requests.split('`').skip(1).step_by(2) {
            let missing = format!("/api/v4{}", with_wildcards(request));
            assert!(!paths.contains(&missing), "{request}");
            checked += 1;
        }
    }
    assert!(checked > 50, "{checked} requests");
}

harness::tests![
    examples_match_their_schemas_in_version_3_1,
    nullable_references_accept_null_in_version_3_1,
    words_of_version_3_0_do_not_occur_in_version_3_1,
    links_name_the_path_parameters_of_their_operation,
    operations_that_create_a_resource_have_links,
    sdk_methods_have_distinct_names,
    sdk_documents_have_no_revalidation_and_two_ways_to_send_a_token,
    requests_in_the_guide_on_limitations_have_no_operation,
];
