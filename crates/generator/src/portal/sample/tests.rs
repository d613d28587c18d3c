//! Tests of the requests in each language.

use serde_json::json;

use super::*;

fn sample(operation: Value) -> [String; 3] {
    sample_with("{}", operation)
}

/// Returns the samples with a file of samples.
fn sample_with(text: &str, operation: Value) -> [String; 3] {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("samples.yaml"), text).expect("a file");
    let samples = crate::samples::load(folder.path()).expect("YAML");
    let root = json!({ "paths": { "/projects/{id}/keys": operation } });
    let mut site = Site::new(&root);
    site.samples = samples.as_ref();
    let request = request(&site, &site.operations[0]);
    [request.curl(), request.python(), request.javascript()]
}

fn parameters() -> Value {
    json!([
        { "name": "id", "in": "path", "required": true, "schema": { "type": "string" }, "example": "engines/difference" },
        { "name": "ref", "in": "query", "required": true, "schema": { "type": "string" } },
        { "name": "page", "in": "query", "schema": { "type": "integer" } },
    ])
}

#[test]
fn samples_encode_paths_and_contain_required_parameters() {
    let [curl, python, javascript] =
        sample(json!({ "get": { "operationId": "get_key", "parameters": parameters() } }));
    let path = "/projects/engines%2Fdifference/keys?ref=main\"";
    assert!(
        curl.starts_with("curl \\\n  --header \"Private-Token: $TOKEN\""),
        "{curl}"
    );
    for text in [curl, python, javascript] {
        assert!(text.contains(path), "{text}");
    }
}

#[test]
fn bodies_are_quoted_for_each_language() {
    let body = json!({ "application/json": { "example": { "title": "It's", "deep": [true, null] } } });
    let [curl, python, javascript] = sample(json!({ "post": {
        "operationId": "create_key", "parameters": parameters(), "requestBody": { "content": body },
    } }));
    assert!(
        curl.contains("--request POST") && curl.contains("It'\\''s"),
        "{curl}"
    );
    assert!(
        python.contains("\"title\": \"It's\",") && python.contains("True,\n            None,"),
        "{python}"
    );
    assert!(
        javascript.contains("body: JSON.stringify({\n    \"title\": \"It's\","),
        "{javascript}"
    );
}

#[test]
fn variables_of_bodies_and_headers_are_read_in_each_language() {
    let parameters = json!([{ "name": "Key", "in": "header" }, { "name": "Other", "in": "header" }]);
    let body = json!({ "application/json": { "example": { "title": "a", "sha": "1a2b" } } });
    let [curl, python, javascript] = sample_with(
        "{bodies: {create_key: {sha: '${SHA}'}}, commands: {create_key: 'SHA=$(git rev-parse HEAD)'},\
         operations: {create_key: {Key: '${KEY}'}}}",
        json!({ "post": { "operationId": "create_key", "parameters": parameters, "requestBody": { "content": body } } }),
    );
    assert!(curl.starts_with("SHA=$(git rev-parse HEAD)\ncurl \\\n"), "{curl}");
    assert!(
        curl.contains("\"title\": \"a\"") && curl.contains("\"sha\": \"'\"$SHA\"'\""),
        "{curl}"
    );
    assert!(curl.contains("--header \"Key: $KEY\""), "{curl}");
    assert!(
        python.contains("\"sha\": os.environ[\"SHA\"]") && python.contains("\"Key\": os.environ[\"KEY\"]"),
        "{python}"
    );
    assert!(
        javascript.contains("\"sha\": process.env.SHA") && javascript.contains("\"Key\": process.env.KEY"),
        "{javascript}"
    );
    assert!(!curl.contains("Other"), "{curl}");
}

#[test]
fn samples_of_operation_that_ignores_credentials_have_no_token() {
    let parameters = json!([{ "name": "Key", "in": "header", "required": true, "example": "a" }]);
    let operation =
        json!({ "get": { "operationId": "get_key", "parameters": parameters, "security": [{}] } });
    for text in sample(operation) {
        assert!(text.contains("Key") && !text.contains("TOKEN"), "{text}");
    }
}

#[test]
fn files_are_sent_as_bodies_and_have_names_of_their_own_in_forms() {
    let operation =
        |body: Value| json!({ "put": { "operationId": "upload_key", "requestBody": { "content": body } } });
    let file = operation(json!({ "application/octet-stream": {} }));
    let [curl, python, javascript] = sample_with("{bodies: {upload_key: a.key}}", file);
    assert!(
        curl.contains("--upload-file a.key") && !curl.contains("--request"),
        "{curl}"
    );
    assert!(python.contains("data=open(\"a.key\", \"rb\")"), "{python}");
    assert!(
        javascript.contains("body: await openAsBlob(\"a.key\")"),
        "{javascript}"
    );
    let schema = json!({ "properties": { "file": { "format": "binary" }, "title": { "type": "string" } } });
    let form = operation(json!({ "multipart/form-data": { "schema": schema } }));
    let [curl, ..] = sample_with("{bodies: {upload_key: {file: a.key, title: b}}}", form);
    assert!(
        curl.contains("--form 'title=b' \\\n  --form 'file=@a.key'"),
        "{curl}"
    );
}

#[test]
fn files_are_sent_as_forms() {
    let schema = json!({ "required": ["file", "name"], "properties": {
        "file": { "type": "string", "format": "binary" }, "name": { "type": "string" }, "note": { "type": "string" },
    } });
    let body = json!({ "multipart/form-data": { "schema": schema } });
    let [curl, python, javascript] = sample(json!({ "post": {
        "operationId": "import_key", "parameters": parameters(), "requestBody": { "content": body },
    } }));
    assert!(
        curl.contains("--form 'name=example' \\\n  --form 'file=@export.tar.gz'"),
        "{curl}"
    );
    assert!(
        python.contains("files={\"file\": open(\"export.tar.gz\", \"rb\")}"),
        "{python}"
    );
    assert!(
        javascript.contains("form.append(\"name\", \"example\");"),
        "{javascript}"
    );
    assert!(!curl.contains("note"), "{curl}");
}
