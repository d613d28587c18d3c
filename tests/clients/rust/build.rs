//! Generates the client from the committed document.

use std::path::Path;

use serde_json::Value;

fn main() {
    let path = "../../../openapi/dist/openapi.json";
    println!("cargo::rerun-if-changed={path}");
    let text = std::fs::read_to_string(path).expect("the document");
    let mut document: Value = serde_json::from_str(&text).expect("JSON");
    drop_hashes(&mut document);
    drop_forms(&mut document);
    drop_other_refusals(&mut document);
    drop_optional_content(&mut document);
    rename_json(&mut document);
    let api: openapiv3::OpenAPI = serde_json::from_value(document).expect("an OpenAPI document");
    let mut generator = progenitor::Generator::default();
    let tokens = generator.generate_tokens(&api).expect("a client");
    let file = syn::parse2(tokens).expect("Rust");
    let out = std::env::var("OUT_DIR").expect("OUT_DIR");
    std::fs::write(Path::new(&out).join("client.rs"), prettyplease::unparse(&file)).expect("a file");
}

/// Removes `deepObject` parameters, which progenitor does not support. All of them are optional filters.
fn drop_hashes(document: &mut Value) {
    let hashes: Vec<String> = document["components"]["parameters"]
        .as_object()
        .expect("parameters")
        .iter()
        .filter(|(_, parameter)| parameter["style"] == "deepObject")
        .map(|(name, _)| format!("#/components/parameters/{name}"))
        .collect();
    let is_hash = |parameter: &Value| {
        parameter["style"] == "deepObject" || hashes.iter().any(|hash| parameter["$ref"] == hash.as_str())
    };
    let paths = document["paths"].as_object_mut().expect("paths");
    for item in paths.values_mut().filter_map(Value::as_object_mut) {
        for operation in item.values_mut() {
            if let Some(parameters) = operation.get_mut("parameters").and_then(Value::as_array_mut) {
                parameters.retain(|parameter| !is_hash(parameter));
            }
        }
    }
}

/// Keeps the empty response of operations that return content only on request: progenitor accepts one type per operation.
fn drop_optional_content(document: &mut Value) {
    let paths = document["paths"].as_object_mut().expect("paths");
    for item in paths.values_mut().filter_map(Value::as_object_mut) {
        for operation in item.values_mut() {
            if let Some(responses) = operation.get_mut("responses").and_then(Value::as_object_mut)
                && responses.contains_key("204")
            {
                responses.remove("200");
            }
        }
    }
}

/// Keeps one error schema per operation, as progenitor requires. SCIM operations use another one for oversized heads.
fn drop_other_refusals(document: &mut Value) {
    let paths = document["paths"].as_object_mut().expect("paths");
    for (_, item) in paths
        .iter_mut()
        .filter(|(path, _)| path.starts_with("/api/scim/"))
    {
        for operation in item.as_object_mut().expect("operations").values_mut() {
            if let Some(responses) = operation.get_mut("responses").and_then(Value::as_object_mut) {
                responses.retain(|status, _| !matches!(status.as_str(), "414" | "431"));
            }
        }
    }
}

/// Renames media types to `application/json`, the only JSON type that progenitor supports.
fn rename_json(document: &mut Value) {
    match document {
        Value::Object(entries) => {
            if let Some(media) = entries.remove("application/scim+json") {
                entries.insert("application/json".to_owned(), media);
            }
            entries.values_mut().for_each(rename_json);
        }
        Value::Array(items) => items.iter_mut().for_each(rename_json),
        _ => {}
    }
}

/// Removes `multipart/form-data`, which progenitor does not support. Operations without another form are removed.
fn drop_forms(document: &mut Value) {
    const FORM: &str = "multipart/form-data";
    let paths = document["paths"].as_object_mut().expect("paths");
    for item in paths.values_mut().filter_map(Value::as_object_mut) {
        item.retain(|_, operation| {
            let content = operation
                .pointer_mut("/requestBody/content")
                .and_then(Value::as_object_mut);
            let Some(content) = content else { return true };
            content.remove(FORM);
            !content.is_empty()
        });
    }
}
