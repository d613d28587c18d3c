//! Links from operations that create a resource to the operations that read, update and delete it, and the URL of the
//! created resource.
//!
//! The path of such an operation is the path of the creating operation and one more parameter, or that of the operation
//! which `x-created` names. The value of the last parameter is an attribute of the created resource, which the example of
//! the response contains.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::lower::json_of;

/// Names the operation that reads the created resource, if its path does not start with that of the creating operation.
pub const CREATED: &str = "x-created";
/// First words of the IDs of operations that return the created resource. Others, such as `share_group`, return another
/// resource.
const VERBS: [&str; 2] = ["create_", "add_"];
/// Component of the header `Location` of created resources.
const RESOURCE_LOCATION: &str = "#/components/headers/ResourceLocation";
/// Methods of operations that are linked.
const LINKED: [&str; 4] = ["get", "put", "patch", "delete"];

/// The URL of a created resource.
#[derive(Debug, PartialEq, Eq)]
pub struct Location {
    /// Path of the operation that reads the resource.
    pub path: String,
    /// Attribute of the response with the value of the last parameter of the path. The values of all other parameters are
    /// those of the request.
    pub attribute: Option<String>,
}

/// Adds the links to the successful responses of the document.
pub(super) fn add(root: &mut Value) {
    let paths = root["paths"].as_object().cloned().unwrap_or_default();
    let items = root["paths"].as_object_mut().into_iter().flatten();
    for (path, item) in items {
        let targets = targets(&paths, path, &item["post"]);
        let links = links(&paths, &targets);
        let created = item.pointer_mut("/post/responses/201");
        if let Some(created) = created.and_then(Value::as_object_mut)
            && !links.is_empty()
        {
            created.insert("links".to_owned(), Value::Object(links));
        }
    }
}

/// Returns the URLs of created resources, by the ID of the operation that creates the resource.
#[must_use]
pub fn locations(root: &Value) -> BTreeMap<String, Location> {
    let empty = Map::new();
    let paths = root["paths"].as_object().unwrap_or(&empty);
    let creating = paths.iter().filter_map(|(path, item)| {
        let id = item["post"]["operationId"].as_str()?;
        let header = &item["post"]["responses"]["201"]["headers"]["Location"];
        // The handler of the operation sets a header of its own.
        if !header.is_null() && !is_resource_location(header) {
            return None;
        }
        let mut targets = targets(paths, path, &item["post"]).into_iter();
        let target = targets.find(|target| paths[&target.path]["get"].is_object())?;
        Some((id.to_owned(), target))
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

/// Returns whether the path of the operation in `x-created` can be filled with the parameters of `path` and an attribute
/// of the response of `operation`.
pub(crate) fn has_known_target(paths: &Map<String, Value>, path: &str, operation: &Value) -> bool {
    targets(paths, path, operation).iter().any(|target| {
        let names: Vec<&str> = placeholders(&target.path).collect();
        let given = match target.attribute {
            Some(_) => &names[..names.len().saturating_sub(1)],
            None => &names,
        };
        given
            .iter()
            .all(|name| placeholders(path).any(|known| known == *name))
    })
}

/// Returns the paths of the resource that an operation creates.
fn targets(paths: &Map<String, Value>, path: &str, operation: &Value) -> Vec<Location> {
    let Some(created) = operation.pointer("/responses/201").and_then(Value::as_object) else {
        return Vec::new();
    };
    let media = created.get("content").and_then(json_of);
    let Some(example) = media.and_then(|(_, media)| media.get("example")) else {
        return Vec::new();
    };
    let location = |target: &str, parameter: &str| {
        Some(Location {
            path: target.to_owned(),
            attribute: Some(attribute(example, parameter)?.to_owned()),
        })
    };
    let Some(reading) = operation[CREATED].as_str() else {
        let id = operation["operationId"].as_str().unwrap_or_default();
        if !creates(id) {
            return Vec::new();
        }
        return paths
            .keys()
            .filter_map(|target| location(target, added_parameter(path, target)?))
            .collect();
    };
    let mut reads = paths
        .iter()
        .filter(|(_, item)| item["get"]["operationId"] == reading);
    let target = reads.next().and_then(|(target, _)| match target == path {
        true => Some(Location {
            path: target.clone(),
            attribute: None,
        }),
        false => location(target, placeholders(target).last()?),
    });
    target.into_iter().collect()
}

/// Returns whether an operation returns the resource that it creates.
fn creates(id: &str) -> bool {
    VERBS.iter().any(|verb| id.starts_with(verb))
}

/// Returns the links of a response by the ID of the linked operation.
fn links(paths: &Map<String, Value>, targets: &[Location]) -> Map<String, Value> {
    let mut links = Map::new();
    for target in targets {
        let mut parameters: Map<String, Value> = placeholders(&target.path)
            .map(|name| (name.to_owned(), json!(format!("$request.path.{name}"))))
            .collect();
        if let (Some(attribute), Some(name)) = (&target.attribute, placeholders(&target.path).last()) {
            parameters.insert(name.to_owned(), json!(format!("$response.body#/{attribute}")));
        }
        let item = &paths[&target.path];
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

    /// Returns the document of an operation that names another one, which reads what it creates.
    fn named(path: &str, target: &str) -> Value {
        let created =
            json!({ "201": { "content": { "application/json": { "example": { "id": 3, "name": "a" } } } } });
        let mut paths = json!({ target: { "get": { "operationId": "get_thing" } } });
        paths[path]["post"] =
            json!({ "operationId": "start_thing", "x-created": "get_thing", "responses": created });
        json!({ "paths": paths })
    }

    #[test]
    fn named_operation_determines_the_links_and_the_url() {
        for (path, target, attribute, id) in [
            (
                "/projects/{id}/fork",
                "/projects/{id}",
                Some("id"),
                "$response.body#/id",
            ),
            (
                "/projects/{id}/run",
                "/projects/{id}/runs/{run_id}",
                Some("id"),
                "$request.path.id",
            ),
            (
                "/projects/{id}/rule",
                "/projects/{id}/rule",
                None,
                "$request.path.id",
            ),
        ] {
            let mut root = named(path, target);
            let expected = Location {
                path: target.to_owned(),
                attribute: attribute.map(str::to_owned),
            };
            assert_eq!(
                locations(&root),
                BTreeMap::from([("start_thing".to_owned(), expected)])
            );
            add(&mut root);
            let link = &root["paths"][path]["post"]["responses"]["201"]["links"]["get_thing"];
            assert_eq!(link["parameters"]["id"], id, "{path}");
        }
    }

    #[test]
    fn named_operation_has_parameters_of_the_request() {
        for (path, target, is_known) in [
            ("/projects/{id}/fork", "/projects/{id}", true),
            ("/projects/{id}/run", "/groups/{group_id}/runs/{run_id}", false),
        ] {
            let root = named(path, target);
            let paths = root["paths"].as_object().cloned().unwrap_or_default();
            assert_eq!(
                has_known_target(&paths, path, &paths[path]["post"]),
                is_known,
                "{path}"
            );
        }
        let root = named("/projects/{id}/run", "/projects/{id}/runs/{run_id}");
        let paths = root["paths"].as_object().cloned().unwrap_or_default();
        let unknown = json!({ "x-created": "get_nothing", "responses": paths["/projects/{id}/run"]["post"]["responses"] });
        assert!(!has_known_target(&paths, "/projects/{id}/run", &unknown));
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
