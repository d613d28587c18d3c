//! Links from operations that create a resource to the operations that read, update and delete it, and the URL of the
//! created resource.
//!
//! The path of such an operation is the path of the creating operation and one more parameter, or that of the operation
//! which `x-created` names. The value of the last parameter is an attribute of the created resource, which the example of
//! the response contains. `x-created` can name attributes for further parameters.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::lower::json_of;

/// Names the operation that reads or deletes the created resource, if its path does not start with that of the creating
/// operation.
pub const CREATED: &str = "x-created";
/// First words of the IDs of operations that return the created resource. Others, such as `share_group`, return another
/// resource.
const VERBS: [&str; 2] = ["create_", "add_"];
/// Component of the header `Location` of created resources.
const RESOURCE_LOCATION: &str = "#/components/headers/ResourceLocation";
/// Methods of operations that are linked.
const LINKED: [&str; 4] = ["get", "put", "patch", "delete"];
/// Methods of operations that create resources.
pub(crate) const CREATING: [&str; 2] = ["post", "put"];

/// The URL of a created resource.
#[derive(Debug, PartialEq, Eq)]
pub struct Location {
    /// Path of the operation that reads the resource.
    pub path: String,
    /// Parameters of that operation with the attributes of the response that contain their values. A parameter that the
    /// path does not have is one of the query. The values of all other parameters of the path are those of the request.
    pub parameters: Vec<(String, String)>,
}

/// Adds the links to the successful responses of the document.
pub(super) fn add(root: &mut Value) {
    let before = root.clone();
    let paths = root["paths"].as_object_mut().into_iter().flatten();
    for (path, item) in paths {
        for method in CREATING {
            let Some(operation) = item.get_mut(method) else {
                continue;
            };
            let links = links(&before, path, operation);
            let created = operation.pointer_mut("/responses/201");
            if let Some(created) = created.and_then(Value::as_object_mut)
                && !links.is_empty()
            {
                created.insert("links".to_owned(), Value::Object(links));
            }
        }
    }
}

/// Returns the URLs of created resources, by the ID of the operation that creates the resource.
#[must_use]
pub fn locations(root: &Value) -> BTreeMap<String, Location> {
    let empty = Map::new();
    let paths = root["paths"].as_object().unwrap_or(&empty);
    let operations = paths.iter().flat_map(|(path, item)| {
        let creating = CREATING.iter().filter_map(|method| item.get(*method));
        creating.map(move |operation| (path, operation))
    });
    let creating = operations.filter_map(|(path, operation)| {
        let id = operation["operationId"].as_str()?;
        let header = &operation["responses"]["201"]["headers"]["Location"];
        // The handler of the operation sets a header of its own.
        if !header.is_null() && !is_resource_location(header) {
            return None;
        }
        let mut targets = targets(paths, path, operation).into_iter();
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

/// Returns whether the parameters of the operation in `x-created` have values: all parameters of its path, and those that
/// `x-created` lists. The values are parameters of `path` or attributes of the response of `operation`.
pub(crate) fn has_known_target(root: &Value, path: &str, operation: &Value) -> bool {
    let empty = Map::new();
    let paths = root["paths"].as_object().unwrap_or(&empty);
    let example = example(operation);
    targets(paths, path, operation).iter().any(|target| {
        let read = &paths[&target.path]["get"];
        let listed = target.parameters.iter().all(|(name, attribute)| {
            let has_value = example.is_some_and(|example| has_value(example, attribute));
            has_value
                && (placeholders(&target.path).any(|known| known == name) || has_query(root, read, name))
        });
        let mut names = placeholders(&target.path);
        listed
            && names.all(|name| {
                let from_response = target.parameters.iter().any(|(known, _)| known == name);
                from_response || placeholders(path).any(|known| known == name)
            })
    })
}

/// Returns the example of the created resource.
fn example(operation: &Value) -> Option<&Value> {
    let created = operation.pointer("/responses/201").and_then(Value::as_object)?;
    let (_, media) = created.get("content").and_then(json_of)?;
    media.get("example")
}

/// Returns the paths of the resource that an operation creates.
fn targets(paths: &Map<String, Value>, path: &str, operation: &Value) -> Vec<Location> {
    let Some(example) = example(operation) else {
        return Vec::new();
    };
    let location = |target: &str, parameter: &str| {
        Some(Location {
            path: target.to_owned(),
            parameters: vec![(parameter.to_owned(), attribute(example, parameter)?.to_owned())],
        })
    };
    let Some((id, listed)) = named(operation) else {
        let id = operation["operationId"].as_str().unwrap_or_default();
        if !creates(id) {
            return Vec::new();
        }
        return paths
            .keys()
            .filter_map(|target| location(target, added_parameter(path, target)?))
            .collect();
    };
    let is_named = |item: &Value| LINKED.iter().any(|method| item[*method]["operationId"] == id);
    let Some((target, _)) = paths.iter().find(|(_, item)| is_named(item)) else {
        return Vec::new();
    };
    let mut parameters = listed;
    let last = placeholders(target).last();
    if let Some(last) = last.filter(|last| target != path && parameters.iter().all(|(name, _)| name != last))
    {
        match attribute(example, last) {
            Some(attribute) => parameters.push((last.to_owned(), attribute.to_owned())),
            None => return Vec::new(),
        }
    }
    vec![Location {
        path: target.clone(),
        parameters,
    }]
}

/// Returns the ID of the operation in `x-created`, and the listed parameters with their attributes.
fn named(operation: &Value) -> Option<(&str, Vec<(String, String)>)> {
    let created = &operation[CREATED];
    if let Some(id) = created.as_str() {
        return Some((id, Vec::new()));
    }
    let listed = created["parameters"].as_object().into_iter().flatten();
    let listed =
        listed.map(|(name, attribute)| (name.clone(), attribute.as_str().unwrap_or_default().to_owned()));
    Some((created["operation"].as_str()?, listed.collect()))
}

/// Returns whether an operation returns the resource that it creates.
fn creates(id: &str) -> bool {
    VERBS.iter().any(|verb| id.starts_with(verb))
}

/// Returns the links of a response by the ID of the linked operation.
fn links(root: &Value, path: &str, creating: &Value) -> Map<String, Value> {
    let empty = Map::new();
    let paths = root["paths"].as_object().unwrap_or(&empty);
    let mut links = Map::new();
    for target in targets(paths, path, creating) {
        let item = &paths[&target.path];
        let operations = LINKED.iter().filter_map(|method| item.get(*method));
        for operation in operations.filter(|operation| operation["operationId"] != creating["operationId"]) {
            let Some(id) = operation["operationId"].as_str() else {
                continue;
            };
            let mut parameters: Map<String, Value> = placeholders(&target.path)
                .map(|name| (name.to_owned(), json!(format!("$request.path.{name}"))))
                .collect();
            for (name, attribute) in &target.parameters {
                if parameters.contains_key(name) || has_query(root, operation, name) {
                    parameters.insert(name.clone(), json!(format!("$response.body#/{attribute}")));
                }
            }
            links.insert(
                id.to_owned(),
                json!({ "operationId": id, "parameters": parameters }),
            );
        }
    }
    links
}

/// Returns whether an operation has a query parameter of this name.
fn has_query(root: &Value, operation: &Value, name: &str) -> bool {
    let mut parameters = operation["parameters"].as_array().into_iter().flatten();
    parameters.any(|parameter| {
        let pointer = parameter["$ref"]
            .as_str()
            .and_then(|reference| reference.strip_prefix('#'));
        let parameter = match pointer {
            Some(pointer) => root.pointer(pointer).unwrap_or(&Value::Null),
            None => parameter,
        };
        parameter["in"] == "query" && parameter["name"] == name
    })
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
    candidates.find(|name| has_value(example, name))
}

/// Returns whether an attribute is a string or a number.
fn has_value(example: &Value, attribute: &str) -> bool {
    matches!(example[attribute], Value::String(_) | Value::Number(_))
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
    fn named_thing(path: &str, target: &str) -> Value {
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
            let mut root = named_thing(path, target);
            let last = placeholders(target).last().unwrap_or_default().to_owned();
            let expected = Location {
                path: target.to_owned(),
                parameters: attribute
                    .map(|attribute: &str| (last, attribute.to_owned()))
                    .into_iter()
                    .collect(),
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
            let root = named_thing(path, target);
            let operation = &root["paths"][path]["post"];
            assert_eq!(has_known_target(&root, path, operation), is_known, "{path}");
        }
        let path = "/projects/{id}/run";
        let root = named_thing(path, "/projects/{id}/runs/{run_id}");
        let responses = &root["paths"][path]["post"]["responses"];
        for unknown in [
            json!("get_nothing"),
            json!({ "operation": "get_thing", "parameters": { "nothing": "id" } }),
            json!({ "operation": "get_thing", "parameters": { "run_id": "nothing" } }),
        ] {
            let operation = json!({ "x-created": unknown, "responses": responses });
            assert!(!has_known_target(&root, path, &operation), "{unknown}");
        }
    }

    #[test]
    fn listed_parameters_have_attributes_of_the_response() {
        let (path, target) = ("/projects/{id}/run", "/groups/{group_id}/runs/{run_id}");
        let mut root = named_thing(path, target);
        root["components"]["parameters"]["Ref"] = json!({ "name": "ref", "in": "query" });
        root["paths"][target]["get"]["parameters"] = json!([{ "$ref": "#/components/parameters/Ref" }]);
        root["paths"][target]["delete"] = json!({ "operationId": "delete_thing" });
        root["paths"][path]["post"][CREATED] =
            json!({ "operation": "get_thing", "parameters": { "group_id": "id", "ref": "name" } });
        assert!(has_known_target(&root, path, &root["paths"][path]["post"]));
        let pair = |name: &str, attribute: &str| (name.to_owned(), attribute.to_owned());
        let parameters = vec![pair("group_id", "id"), pair("ref", "name"), pair("run_id", "id")];
        assert_eq!(locations(&root)["start_thing"].parameters, parameters);
        add(&mut root);
        let links = &root["paths"][path]["post"]["responses"]["201"]["links"];
        let id = "$response.body#/id";
        assert_eq!(
            links["delete_thing"]["parameters"],
            json!({ "group_id": id, "run_id": id })
        );
        let all = json!({ "group_id": id, "run_id": id, "ref": "$response.body#/name" });
        assert_eq!(links["get_thing"]["parameters"], all);
    }

    #[test]
    fn resource_that_is_only_deleted_has_links_and_no_url() {
        let (path, target) = ("/projects/{id}/run", "/projects/{id}/runs/{run_id}");
        let mut root = named_thing(path, target);
        root["paths"][target] = json!({ "delete": { "operationId": "delete_thing" } });
        root["paths"][path]["post"][CREATED] = json!("delete_thing");
        assert!(has_known_target(&root, path, &root["paths"][path]["post"]));
        assert_eq!(locations(&root), BTreeMap::new());
        add(&mut root);
        assert!(root["paths"][path]["post"]["responses"]["201"]["links"]["delete_thing"].is_object());
    }

    #[test]
    fn put_that_creates_a_resource_has_a_url_and_no_link_to_itself() {
        let path = "/projects/{id}/run";
        let mut root = named_thing(path, path);
        root["paths"][path]["put"] = root["paths"][path]["post"].take();
        let parameters = Vec::new();
        let path = path.to_owned();
        assert_eq!(
            locations(&root)["start_thing"],
            Location {
                path: path.clone(),
                parameters
            }
        );
        add(&mut root);
        let links = root["paths"][&path]["put"]["responses"]["201"]["links"]
            .as_object()
            .cloned();
        assert_eq!(
            links.unwrap_or_default().keys().collect::<Vec<_>>(),
            ["get_thing"]
        );
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
