//! Files that are not part of the document: the values of the samples, and the workflows.

use generator::{samples, workflows};

use super::{loaded, small};

/// Returns a folder with a file.
fn folder(name: &str, text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join(name), text).expect("a file");
    folder
}

fn faults_of_samples(text: &str) -> String {
    let folder = folder("samples.yaml", text);
    let samples = samples::load(folder.path()).expect("YAML").expect("samples");
    let document = loaded(&small()).expect("a document");
    samples.check(&document).err().unwrap_or_default()
}

fn faults_of_workflow(step: &str) -> String {
    let text = format!("workflows: [{{workflowId: one, steps: [{step}]}}]");
    let folder = folder("arazzo.yaml", &text);
    let workflows = workflows::load(folder.path()).expect("YAML").expect("workflows");
    let document = loaded(&small()).expect("a document");
    workflows.check(&document).err().unwrap_or_default()
}

#[test]
fn values_of_unknown_parameters_and_operations_are_reported() {
    assert_eq!(
        faults_of_samples("values: {key_id: 1}\noperations: {get_raw_key: {key_id: 2}}\n"),
        ""
    );
    let expected = "openapi/samples.yaml: no operation has the parameter `other`\n\
                    openapi/samples.yaml: `get_raw_key` has no parameter `title`\n\
                    openapi/samples.yaml: `unknown` has no parameter `key_id`\n";
    let faults = faults_of_samples(
        "values: {other: 1}\noperations: {get_raw_key: {title: x}, unknown: {key_id: 1}}\n",
    );
    assert_eq!(faults, expected);
    let body = "bodies: {create_key: {title: '${TITLE}'}}\n";
    let expected = "openapi/samples.yaml: `variables` does not describe the variable `TITLE`\n";
    assert_eq!(faults_of_samples(body), expected);
    assert_eq!(
        faults_of_samples(&format!("{body}variables: {{TITLE: a title}}\n")),
        ""
    );
}

#[test]
fn bodies_and_commands_of_unknown_operations_and_attributes_are_reported() {
    assert_eq!(
        faults_of_samples("bodies: {create_key: {title: b}}\ncommands: {create_key: 'true'}\n"),
        ""
    );
    let expected = "openapi/samples.yaml: `create_key` has no attribute `wings`\n\
                    openapi/samples.yaml: `get_raw_key` has no body\n\
                    openapi/samples.yaml: unknown operation `fly`\n";
    let faults = faults_of_samples(
        "bodies: {create_key: {wings: 2}, get_raw_key: {title: b}}\ncommands: {fly: 'true'}\n",
    );
    assert_eq!(faults, expected);
}

#[test]
fn value_of_an_operation_precedes_the_value_of_all() {
    let folder = folder(
        "samples.yaml",
        "values: {key_id: 1}\noperations: {get_raw_key: {key_id: a b}}\n",
    );
    let samples = samples::load(folder.path()).expect("YAML").expect("samples");
    assert_eq!(samples.value("get_raw_key", "key_id").as_deref(), Some("a b"));
    assert_eq!(samples.value("delete_key", "key_id").as_deref(), Some("1"));
    assert_eq!(samples.value("delete_key", "title"), None);
}

#[test]
fn steps_that_do_not_fit_their_operation_are_reported() {
    let step = "{stepId: a, operationId: get_raw_key, parameters: [{name: id, in: path, value: 1}, {name: key_id, in: path, value: 1}]}";
    assert_eq!(faults_of_workflow(step), "");
    let faults = |step: &str| faults_of_workflow(&format!("{{stepId: a, {step}}}"));
    assert_eq!(
        faults("operationId: fly"),
        "openapi/arazzo.yaml: one/a: unknown operation `fly`\n"
    );
    let found = faults("operationId: get_raw_key, parameters: [{name: x, in: query, value: 1}]");
    let expected = "openapi/arazzo.yaml: one/a: `get_raw_key` has no parameter `x`\n\
                    openapi/arazzo.yaml: one/a: the required parameter `id` of `get_raw_key` is missing\n\
                    openapi/arazzo.yaml: one/a: the required parameter `key_id` of `get_raw_key` is missing\n";
    assert_eq!(found, expected);
    let found = faults("operationId: create_key, requestBody: {payload: {wings: 2}}");
    assert!(
        found.contains("one/a: `create_key` has no attribute `wings`\n"),
        "{found}"
    );
    assert!(found.contains("of `create_key` is missing\n"), "{found}");
}

#[test]
fn absent_files_are_accepted_and_invalid_ones_reported() {
    let empty = tempfile::tempdir().expect("a folder");
    assert!(samples::load(empty.path()).expect("no file").is_none());
    assert!(workflows::load(empty.path()).expect("no file").is_none());
    let invalid = folder("samples.yaml", "values: [");
    let error = samples::load(invalid.path()).err().expect("an error");
    assert!(error.starts_with("openapi/samples.yaml: "), "{error}");
}
