//! Hints for SDK generators: names of methods, pages, retries, operations to omit and descriptions of values.
//!
//! All hints follow from other parts of the document, so no path file contains them. Speakeasy reads the `x-speakeasy-`
//! hints, Fern the `x-fern-` hints, and viewers read the badges.

use std::collections::BTreeSet;

use heck::{ToSnakeCase, ToTitleCase};
use serde_json::{Map, Value, json};

use super::each_operation;

/// Descriptions of the values of an enumeration, in the order of the values.
const DESCRIPTIONS: &str = "x-enum-descriptions";

/// Adds the hints to all operations and enumerations.
pub(super) fn add(root: &mut Value) {
    let mut methods = BTreeSet::new();
    each_operation(root, |_, method, operation| {
        let tag = operation
            .get("tags")
            .map_or("", |tags| tags[0].as_str().unwrap_or_default());
        let id = operation
            .get("operationId")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let (group, mut name) = (tag.to_snake_case(), method_name(tag, id));
        if !methods.insert((group.clone(), name.clone())) {
            name = id.to_owned();
        }
        let mut hints = json!({
            "x-speakeasy-group": group,
            "x-speakeasy-name-override": name,
            "x-fern-sdk-group-name": [group],
            "x-fern-sdk-method-name": name,
        });
        if operation.contains_key("x-page") {
            hints["x-speakeasy-pagination"] = pagination();
        }
        if matches!(method, "get" | "head") {
            hints["x-speakeasy-retries"] = retries();
        } else {
            // Fern repeats all methods by default, and a repeated write can change the resource twice.
            hints["x-fern-retries"] = json!({ "disabled": true });
        }
        if operation.get("deprecated") == Some(&Value::Bool(true)) {
            hints["x-speakeasy-ignore"] = json!(true);
            hints["x-fern-ignore"] = json!(true);
        }
        let badges = badges(operation);
        if !badges.is_empty() {
            hints["x-badges"] = json!(badges);
        }
        operation.extend(hints.as_object().cloned().unwrap_or_default());
    });
    describe_values(root);
}

/// Adds the descriptions of the values of enumerations, as openapi-generator reads them in both versions of OpenAPI.
pub(super) fn describe_values(root: &mut Value) {
    let schemas = root["components"]["schemas"].as_object_mut();
    for schema in schemas.into_iter().flat_map(Map::values_mut) {
        if let Some(descriptions) = value_descriptions(schema) {
            schema[DESCRIPTIONS] = json!(descriptions);
        }
    }
}

/// Adds the descriptions of the values of enumerations by value, as viewers read them.
pub(super) fn name_descriptions(root: &mut Value) {
    let schemas = root["components"]["schemas"].as_object_mut();
    for schema in schemas.into_iter().flat_map(Map::values_mut) {
        let (Some(values), Some(descriptions)) = (schema["enum"].as_array(), schema[DESCRIPTIONS].as_array())
        else {
            continue;
        };
        let named = values.iter().zip(descriptions);
        let named =
            named.filter_map(|(value, description)| Some((value.as_str()?.to_owned(), description.clone())));
        schema["x-enumDescriptions"] = named.collect::<Map<_, _>>().into();
    }
}

/// Returns the description of each value of an enumeration of texts: the sentences of its description that contain the value
/// as code. Returns `None` if the description does not contain all values.
fn value_descriptions(schema: &Value) -> Option<Vec<String>> {
    let description = schema["description"].as_str()?;
    let values = schema["enum"].as_array()?.iter();
    values
        .map(|value| {
            let code = format!("`{}`", value.as_str()?);
            let sentences = description.split_inclusive(". ").map(str::trim);
            let sentences: Vec<&str> = sentences.filter(|sentence| sentence.contains(&code)).collect();
            (!sentences.is_empty()).then(|| sentences.join(" "))
        })
        .collect()
}

/// Returns the verb of an operation on the resource of its tag, such as `get` for `get_branch`, or else the ID of the
/// operation.
fn method_name(tag: &str, id: &str) -> String {
    let tag = tag.to_snake_case();
    let verb = id
        .split_once('_')
        .filter(|(_, noun)| *noun == tag || *noun == singular(&tag));
    verb.map_or(id, |(verb, _)| verb).to_owned()
}

fn singular(noun: &str) -> String {
    if let Some(stem) = noun.strip_suffix("ies") {
        return format!("{stem}y");
    }
    let ending = match ["ches", "uses"].iter().any(|ending| noun.ends_with(ending)) {
        true => "es",
        false => "s",
    };
    noun.strip_suffix(ending).unwrap_or(noun).to_owned()
}

/// Returns how a list is read page by page: the response is the list, and a page that is not full is the last one.
fn pagination() -> Value {
    json!({
        "type": "offsetLimit",
        "inputs": [
            { "name": "page", "in": "parameters", "type": "page" },
            { "name": "per_page", "in": "parameters", "type": "limit" },
        ],
        "outputs": { "results": "$" },
    })
}

/// Returns how a read is repeated after the responses that have the header `Retry-After`.
fn retries() -> Value {
    json!({
        "strategy": "backoff",
        "backoff": { "initialInterval": 500, "maxInterval": 60_000, "maxElapsedTime": 300_000, "exponent": 1.5 },
        "statusCodes": ["429", "503"],
        "retryConnectionErrors": true,
    })
}

/// Returns the lowest role and the plan of an operation. Any user, and the Free plan, are not shown.
fn badges(operation: &Map<String, Value>) -> Vec<Value> {
    let role = operation
        .get("x-access")
        .and_then(|access| access["min"].as_str());
    let role = role.filter(|role| *role != "none").map(|role| match role {
        "admin" => "Administrator".to_owned(),
        role => role.to_title_case(),
    });
    let plan = operation.get("x-tier").and_then(Value::as_str);
    let plan = plan
        .filter(|plan| *plan != "free")
        .map(ToTitleCase::to_title_case);
    role.into_iter()
        .chain(plan)
        .map(|name| json!({ "name": name }))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn method_is_the_verb_if_the_noun_is_the_tag() {
        for (tag, id, name) in [
            ("Projects", "list_projects", "list"),
            ("Projects", "get_project", "get"),
            ("Projects", "list_user_projects", "list_user_projects"),
            ("Branches", "protect_branch", "protect"),
            ("Repositories", "list_repositories", "list"),
            ("Repositories", "get_repository", "get"),
            ("Feature Flags", "create_feature_flag", "create"),
            ("Commit Statuses", "list_commit_statuses", "list"),
            ("Commit Statuses", "create_commit_status", "create"),
        ] {
            assert_eq!(method_name(tag, id), name, "{id}");
        }
    }

    /// Returns the hints of an operation on keys.
    fn hints(method: &str, operation: Value) -> Value {
        let mut root = json!({ "paths": { "/keys": { method: operation } } });
        add(&mut root);
        root["paths"]["/keys"][method].take()
    }

    #[test]
    fn values_have_the_sentences_that_contain_them() {
        let schema = |description: &str| json!({ "enum": ["off", "on"], "description": description });
        let complete =
            "State of a switch. The state `on` closes it. The state `off` opens it, like `on` twice.";
        assert_eq!(
            value_descriptions(&schema(complete)),
            Some(vec![
                "The state `off` opens it, like `on` twice.".to_owned(),
                "The state `on` closes it. The state `off` opens it, like `on` twice.".to_owned(),
            ])
        );
        let mut root = json!({ "components": { "schemas": { "State": schema("`on` or `off`.") } } });
        add(&mut root);
        name_descriptions(&mut root);
        let state = &root["components"]["schemas"]["State"];
        assert_eq!(
            state["x-enum-descriptions"],
            json!(["`on` or `off`.", "`on` or `off`."])
        );
        assert_eq!(
            state["x-enumDescriptions"],
            json!({ "off": "`on` or `off`.", "on": "`on` or `off`." })
        );
        assert_eq!(value_descriptions(&schema("The state `on` closes it.")), None);
        assert_eq!(
            value_descriptions(&json!({ "enum": [10], "description": "10 (Guest)" })),
            None
        );
    }

    #[test]
    fn only_reads_are_repeated() {
        let read = hints("get", json!({ "operationId": "get_key", "tags": ["Keys"] }));
        assert_eq!(read["x-speakeasy-retries"]["statusCodes"], json!(["429", "503"]));
        assert_eq!(read["x-fern-retries"], Value::Null);
        let write = hints("put", json!({ "operationId": "update_key", "tags": ["Keys"] }));
        assert_eq!(write["x-speakeasy-retries"], Value::Null);
        assert_eq!(write["x-fern-retries"], json!({ "disabled": true }));
    }

    #[test]
    fn lists_have_pages_and_deprecated_operations_are_omitted() {
        let list =
            json!({ "operationId": "list_keys", "tags": ["Keys"], "x-page": "offset", "deprecated": true });
        let list = hints("get", list);
        assert_eq!(
            list["x-speakeasy-pagination"]["outputs"],
            json!({ "results": "$" })
        );
        assert_eq!(list["x-speakeasy-ignore"], true);
        assert_eq!(list["x-fern-ignore"], true);
        let read = hints("get", json!({ "operationId": "get_key", "tags": ["Keys"] }));
        assert_eq!(read["x-speakeasy-pagination"], Value::Null);
        assert_eq!(read["x-fern-ignore"], Value::Null);
    }

    #[test]
    fn badges_are_role_and_plan() {
        let operation = |min: &str, plan: &str| json!({ "x-access": { "min": min }, "x-tier": plan });
        assert_eq!(hints("get", operation("none", "free"))["x-badges"], Value::Null);
        assert_eq!(
            hints("get", operation("maintainer", "premium"))["x-badges"],
            json!([{ "name": "Maintainer" }, { "name": "Premium" }])
        );
        assert_eq!(
            hints("get", operation("admin", "free"))["x-badges"],
            json!([{ "name": "Administrator" }])
        );
    }
}
