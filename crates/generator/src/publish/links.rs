//! Links from operations that create a resource to the operations that read, update and delete it, and the URL of the
//! created resource.
//!
//! The path of such an operation is the path of the creating operation and one more parameter. The value of that
//! parameter is an attribute of the created resource, which the example of the response contains.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::lower::json_of;

/// First words of the IDs of operations that return the created resource. Others, such as `share_group`, return another
/// resource.
const VERBS: [&str; 2] = ["create_", "add_"];
/// Component of the header `Location` of created resources.
const RESOURCE_LOCATION: &str = "#/components/headers/ResourceLocation";
/// Methods of operations that are linked.
const LINKED: [&str; 4] = ["get", "put", "patch", "delete"];

/// Adds the links to the successful responses of the document.
pub(super) fn add(root: &mut Value) {
    let paths = root["paths"].as_object().cloned().unwrap_or_default();
    let items = root["paths"].as_object_mut().into_iter().flatten();
    for (path, item) in items {
        let id = item["post"]["operationId"].as_str().unwrap_or_default();
        if !creates(id) {
            continue;
        }
        let responses = item.pointer_mut("/post/responses").and_then(Value::as_object_mut);
        let created = responses.and_then(|responses| responses.get_mut("201"));
        let Some(created) = created.and_then(Value::as_object_mut) else {
            continue;
        };
        let links = links(&paths, path, created);
        if !links.is_empty() {
            created.insert("links".to_owned(), Value::Object(links));
        }
    }
}

/// Returns the attributes whose values end the URLs of created resources, by the ID of the operation that creates the
/// resource. The start of the URL is the URL of that operation.
#[must_use]
pub fn locations(root: &Value) -> BTreeMap<String, String> {
    let empty = Map::new();
    let paths = root["paths"].as_object().unwrap_or(&empty);
    let creating = paths.iter().filter_map(|(path, item)| {
        let id = item["post"]["operationId"].as_str()?;
        let created = item.pointer("/post/responses/201")?.as_object()?;
        let attribute = location(paths, path, created)?;
        let header = created
            .get("headers")
            .map_or(&Value::Null, |headers| &headers["Location"]);
        // The handler of the operation sets a header of its own.
        let is_own = !header.is_null() && !is_resource_location(header);
        (creates(id) && !is_own).then(|| (id.to_owned(), attribute.to_owned()))
    });
    creating.collect()
}

/// Returns the reference to the header `Location` of created resources.
#[must_use]
pub fn resource_location() -> Value {
    json!({ "$ref": RESOURCE_LOCATION })
}

/// Returns whether a header is the header `Location` of created resources, which the server sets without the handler.
#[must_use]
pub fn is_resource_location(header: &Value) -> bool {
    header["$ref"] == RESOURCE_LOCATION
}

/// Returns the attribute whose value ends the URL of the created resource, if an operation returns the resource.
fn location<'a>(paths: &'a Map<String, Value>, path: &str, created: &Map<String, Value>) -> Option<&'a str> {
    let (_, media) = created.get("content").and_then(json_of)?;
    let example = media.get("example")?;
    let readable = paths.iter().filter(|(_, item)| item["get"].is_object());
    let mut names = readable.filter_map(|(target, _)| added_parameter(path, target));
    names.find_map(|name| attribute(example, name))
}

/// Returns whether an operation returns the resource that it creates.
fn creates(id: &str) -> bool {
    VERBS.iter().any(|verb| id.starts_with(verb))
}

/// Returns the links of a response by the ID of the linked operation.
fn links(paths: &Map<String, Value>, path: &str, created: &Map<String, Value>) -> Map<String, Value> {
    let media = created.get("content").and_then(json_of);
    let Some(example) = media.and_then(|(_, media)| media.get("example")) else {
        return Map::new();
    };
    let mut links = Map::new();
    for (target, item) in paths {
        let Some(name) = added_parameter(path, target) else {
            continue;
        };
        let Some(attribute) = attribute(example, name) else {
            continue;
        };
        let mut parameters: Map<String, Value> = placeholders(path)
            .map(|name| (name.to_owned(), json!(format!("$request.path.{name}"))))
            .collect();
        parameters.insert(name.to_owned(), json!(format!("$response.body#/{attribute}")));
        for id in LINKED
            .iter()
            .filter_map(|method| item[*method]["operationId"].as_str())
        {
            links.insert(
                id.to_owned(),
                json!({ "operationId": id, "parameters": parameters }),
            );
        }
    }
    links
}

/// Returns the name of the parameter that `target` has in addition to `path`.
fn added_parameter<'a>(path: &str, target: &'a str) -> Option<&'a str> {
    let name = target.strip_prefix(path)?.strip_prefix("/{")?.strip_suffix('}')?;
    (!name.contains('/')).then_some(name)
}

fn placeholders(path: &str) -> impl Iterator<Item = &str> {
    let rests = path.split('{').skip(1);
    rests
        .filter_map(|rest| rest.split_once('}'))
        .map(|(name, _)| name)
}

/// Returns the attribute of a resource that a parameter names: `key` by `key`, `iid` by `issue_iid`, and `name` or `id`
/// by other names, such as `branch` and `sha`.
fn attribute<'a>(example: &Value, parameter: &'a str) -> Option<&'a str> {
    let suffix = parameter.rsplit('_').next().unwrap_or(parameter);
    let mut candidates = [parameter, suffix, "name", "id"].into_iter();
    candidates.find(|name| matches!(example[*name], Value::String(_) | Value::Number(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the links of an operation that creates a key, to operations on another path.
    fn linked_by(id: &str, target: &str, example: &Value) -> Value {
        let created = json!({ "201": { "content": { "application/json": { "example": example } } } });
        let mut root = json!({ "paths": {
            "/projects/{id}/keys": { "post": { "operationId": id, "responses": created } },
            target: { "get": { "operationId": "get_key" }, "delete": { "operationId": "delete_key" } },
        } });
        add(&mut root);
        root["paths"]["/projects/{id}/keys"]["post"]["responses"]["201"]["links"].take()
    }

    fn linked(target: &str, example: &Value) -> Value {
        linked_by("create_key", target, example)
    }

    #[test]
    fn created_resource_links_to_operations_of_its_path() {
        let links = linked("/projects/{id}/keys/{key_id}", &json!({ "id": 3, "key": "a" }));
        let parameters = json!({ "id": "$request.path.id", "key_id": "$response.body#/id" });
        assert_eq!(
            links,
            json!({
                "get_key": { "operationId": "get_key", "parameters": parameters },
                "delete_key": { "operationId": "delete_key", "parameters": parameters },
            })
        );
    }

    #[test]
    fn parameter_names_its_attribute() {
        for (parameter, example, attribute) in [
            ("key", json!({ "id": 3, "key": "a" }), "key"),
            ("issue_iid", json!({ "id": 3, "iid": 1 }), "iid"),
            (
                "branch",
                json!({ "name": "main", "commit": { "id": "a" } }),
                "name",
            ),
            ("sha", json!({ "id": "a" }), "id"),
        ] {
            let links = linked(&format!("/projects/{{id}}/keys/{{{parameter}}}"), &example);
            let expected = format!("$response.body#/{attribute}");
            assert_eq!(links["get_key"]["parameters"][parameter], expected);
        }
    }

    #[test]
    fn other_paths_are_not_linked() {
        for target in [
            "/projects/{id}/keys/{key_id}/raw",
            "/projects/{id}/keys/all",
            "/keys/{key_id}",
        ] {
            assert_eq!(linked(target, &json!({ "id": 3 })), Value::Null, "{target}");
        }
        let links = linked("/projects/{id}/keys/{key_id}", &json!({ "text": "a" }));
        assert_eq!(links, Value::Null, "the response does not identify the resource");
    }

    #[test]
    fn operations_that_return_another_resource_have_no_links() {
        let example = json!({ "id": 3 });
        assert_eq!(
            linked_by("share_keys", "/projects/{id}/keys/{key_id}", &example),
            Value::Null
        );
        assert_ne!(
            linked_by("add_key", "/projects/{id}/keys/{key_id}", &example),
            Value::Null
        );
    }
}
