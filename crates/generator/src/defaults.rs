//! Adds the common parts of many operations: revalidation, limits of the request head, and URLs of created resources.
//!
//! Every operation returns 414 and 431 for a head that is too large, because the limit is checked before
//! routing. Every GET that returns JSON has a weak entity tag and supports `If-None-Match`. The parameter,
//! headers and responses are defined once, in `openapi/shared/`, and added to each such operation here.

use serde_json::{Map, Value, json};

use crate::load::Document;
use crate::lower::{METHODS, json_of};
use crate::publish::links;

/// Header of revalidation.
pub const IF_NONE_MATCH: &str = "If-None-Match";

/// Parameter with the user to act as.
pub const SUDO: &str = "sudo";

/// Parameters that the edge handles itself, so handlers do not see them.
pub const EDGE_PARAMETERS: [&str; 2] = [IF_NONE_MATCH, SUDO];

/// Adds the common parts to the document.
pub fn add(document: &mut Document) {
    let locations = links::locations(&document.root);
    let mut paths = document.root["paths"].take();
    for item in paths.as_object_mut().into_iter().flat_map(Map::values_mut) {
        for method in links::CREATING {
            let id = item[method]["operationId"].as_str().unwrap_or_default();
            if locations.contains_key(id) {
                item[method]["responses"]["201"]["headers"]["Location"] = links::resource_location();
            }
        }
        for method in METHODS {
            if let Some(operation) = item.get_mut(method).and_then(Value::as_object_mut) {
                limits(operation);
                if method == "get" {
                    revalidation(document, operation);
                }
            }
        }
    }
    document.root["paths"] = paths;
}

fn reference(section: &str, name: &str) -> Value {
    json!({ "$ref": format!("#/components/{section}/{name}") })
}

fn limits(operation: &mut Map<String, Value>) {
    if let Some(responses) = operation.get_mut("responses").and_then(Value::as_object_mut) {
        responses.insert("414".to_owned(), reference("responses", "UriTooLong"));
        responses.insert("431".to_owned(), reference("responses", "HeaderFieldsTooLarge"));
        responses.sort_keys();
    }
}

fn revalidation(document: &Document, operation: &mut Map<String, Value>) {
    let Some(responses) = operation.get_mut("responses").and_then(Value::as_object_mut) else {
        return;
    };
    let Some(success) = responses.get("200").map(|response| document.deref(response)) else {
        return;
    };
    if json_of(&success["content"]).is_none() {
        return;
    }
    let mut success = success.clone();
    if success.get("headers").is_none() {
        success["headers"] = json!({});
    }
    success["headers"]["ETag"] = reference("headers", "WeakETag");
    success["headers"]["Cache-Control"] = reference("headers", "CacheControl");
    responses.insert("200".to_owned(), success);
    responses
        .entry("304")
        .or_insert_with(|| reference("responses", "NotModified"));
    responses.sort_keys();
    let parameters = operation.entry("parameters").or_insert_with(|| json!([]));
    if let Some(parameters) = parameters.as_array_mut() {
        parameters.push(reference("parameters", "IfNoneMatch"));
    }
}
