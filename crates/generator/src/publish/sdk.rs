//! Reduces the document for SDK generators: parts that the runtime of a client handles would become arguments, types
//! and alternatives of every generated function.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::each_operation;
use crate::defaults::IF_NONE_MATCH;
use crate::lint::collect;

/// Security schemes that remain. The others are the same tokens in a query, a browser's session, and `Sudo`.
const SCHEMES: [&str; 4] = ["bearer", "private_token_header", "job_token_header", "scim_token"];
/// Schemas whose name is a type of most languages, or the type of files in TypeScript, and their new names.
const RENAMED: [(&str, &str); 2] = [("Error", "ApiError"), ("Blob", "RepositoryBlob")];

/// Returns a copy of a document without revalidation, without alternative ways to send a token, and with distinct names
/// of schemas.
pub(super) fn reduced(root: &Value) -> Value {
    let mut root = root.clone();
    let parameters = root["components"]["parameters"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    let revalidates = |parameter: &Value| {
        let name = parameter["$ref"]
            .as_str()
            .and_then(|reference| reference.rsplit('/').next());
        name.and_then(|name| parameters.get(name)).unwrap_or(parameter)["name"] == IF_NONE_MATCH
    };
    each_operation(&mut root, |_, _, operation| {
        if let Some(list) = operation.get_mut("parameters").and_then(Value::as_array_mut)
            && list.iter().any(revalidates)
        {
            list.retain(|parameter| !revalidates(parameter));
            if let Some(responses) = operation.get_mut("responses").and_then(Value::as_object_mut) {
                responses.shift_remove("304");
            }
        }
        if let Some(security) = operation.get_mut("security") {
            simplify(security);
        }
    });
    simplify(&mut root["security"]);
    for (old, new) in RENAMED {
        rename(&mut root, old, new);
    }
    remove_unused(&mut root);
    root
}

/// Retains the requirements that consist of one remaining scheme, and the empty requirement.
fn simplify(security: &mut Value) {
    if let Some(requirements) = security.as_array_mut() {
        requirements.retain(|requirement| {
            let schemes: Vec<&String> = requirement.as_object().into_iter().flat_map(Map::keys).collect();
            schemes.len() < 2 && schemes.iter().all(|scheme| SCHEMES.contains(&scheme.as_str()))
        });
    }
}

/// Renames a schema.
fn rename(root: &mut Value, old: &str, new: &str) {
    if let Some(schemas) = root["components"]["schemas"].as_object_mut()
        && let Some(schema) = schemas.shift_remove(old)
    {
        schemas.insert(new.to_owned(), schema);
        let schema = |name: &str| format!("#/components/schemas/{name}");
        replace(root, &schema(old), &schema(new));
    }
}

/// Replaces a reference everywhere.
fn replace(value: &mut Value, old: &str, new: &str) {
    match value {
        Value::Object(entries) => {
            if entries.get("$ref").is_some_and(|reference| reference == old) {
                entries.insert("$ref".to_owned(), json!(new));
            }
            entries.values_mut().for_each(|entry| replace(entry, old, new));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, old, new)),
        _ => {}
    }
}

/// Removes components that are no longer used. A removed component can be the only user of others.
fn remove_unused(root: &mut Value) {
    if let Some(schemes) = root["components"]["securitySchemes"].as_object_mut() {
        schemes.retain(|name, _| SCHEMES.contains(&name.as_str()));
    }
    loop {
        let mut used = BTreeSet::new();
        collect(root, &mut used);
        let mut removed = false;
        let sections = root["components"].as_object_mut().into_iter().flatten();
        for (section, components) in sections.filter(|(section, _)| *section != "securitySchemes") {
            if let Some(components) = components.as_object_mut() {
                let before = components.len();
                components.retain(|name, _| used.contains(&format!("#/components/{section}/{name}")));
                removed |= components.len() < before;
            }
        }
        if !removed {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Value {
        let reference =
            |section: &str, name: &str| json!({ "$ref": format!("#/components/{section}/{name}") });
        let all =
            json!([{ "bearer": [] }, { "private_token_query": [] }, { "bearer": [], "sudo_header": [] }, {}]);
        json!({
            "security": all,
            "paths": { "/keys": {
                "get": {
                    "security": all,
                    "parameters": [reference("parameters", "Page"), reference("parameters", "IfNoneMatch")],
                    "responses": { "304": reference("responses", "NotModified"), "400": reference("responses", "Fault") },
                },
                "post": { "responses": { "304": { "description": "No change." } } },
            } },
            "components": {
                "parameters": { "Page": { "name": "page" }, "IfNoneMatch": { "name": "If-None-Match" } },
                "responses": {
                    "NotModified": { "headers": { "ETag": reference("headers", "ETag") } },
                    "Fault": { "content": { "application/json": { "schema": reference("schemas", "Error") } } },
                },
                "headers": { "ETag": {} },
                "schemas": {
                    "Error": { "properties": { "blob": reference("schemas", "Blob") } },
                    "Blob": { "type": "object" },
                },
                "securitySchemes": { "bearer": {}, "private_token_query": {}, "sudo_header": {} },
            },
        })
    }

    #[test]
    fn reads_have_no_revalidation() {
        let root = reduced(&document());
        let read = &root["paths"]["/keys"]["get"];
        assert_eq!(
            read["parameters"],
            json!([{ "$ref": "#/components/parameters/Page" }])
        );
        assert_eq!(read["responses"]["304"], Value::Null);
        assert_eq!(root["components"]["parameters"]["IfNoneMatch"], Value::Null);
        assert_eq!(root["components"]["responses"]["NotModified"], Value::Null);
        assert_eq!(
            root["components"]["headers"],
            json!({}),
            "used only by a removed response"
        );
    }

    #[test]
    fn writes_without_change_return_304() {
        let root = reduced(&document());
        assert_eq!(
            root["paths"]["/keys"]["post"]["responses"]["304"]["description"],
            "No change."
        );
    }

    #[test]
    fn tokens_are_sent_in_headers() {
        let root = reduced(&document());
        let expected = json!([{ "bearer": [] }, {}]);
        assert_eq!(root["security"], expected);
        assert_eq!(root["paths"]["/keys"]["get"]["security"], expected);
        assert_eq!(root["components"]["securitySchemes"], json!({ "bearer": {} }));
    }

    #[test]
    fn schemas_have_names_that_are_no_types_of_languages() {
        let root = reduced(&document());
        let media = &root["components"]["responses"]["Fault"]["content"]["application/json"];
        assert_eq!(media["schema"]["$ref"], "#/components/schemas/ApiError");
        let blob = json!({ "$ref": "#/components/schemas/RepositoryBlob" });
        assert_eq!(
            root["components"]["schemas"],
            json!({ "ApiError": { "properties": { "blob": blob } }, "RepositoryBlob": { "type": "object" } })
        );
    }
}
