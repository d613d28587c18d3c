//! Derives the OpenAPI 3.1.1 form of the document: types with null, unions of types, and metadata that 3.0 lacks.
//!
//! OpenAPI 3.0 has no null in a reference, so generated clients depend on how each generator reads `nullable`. In 3.1,
//! schemas are JSON Schema 2020-12, which has a type for null.

use serde_json::{Map, Value, json};

use crate::load::{TYPES, WEBHOOKS};

/// Converts a document of version 3.0.3.
pub(super) fn upgrade(root: &mut Value) {
    root["openapi"] = json!("3.1.1");
    if let Some(info) = root["info"].as_object_mut() {
        metadata(info);
    }
    if let Some(root) = root.as_object_mut()
        && let Some(webhooks) = root.shift_remove(WEBHOOKS)
    {
        root.insert("webhooks".to_owned(), webhooks);
    }
    find_schemas(root);
}

/// Renames the summary, and replaces the URL of the license, whose name is an SPDX expression, by its identifier.
fn metadata(info: &mut Map<String, Value>) {
    if let Some(summary) = info.shift_remove("x-summary") {
        info.insert("summary".to_owned(), summary);
    }
    if let Some(license) = info.get_mut("license").and_then(Value::as_object_mut) {
        license.shift_remove("url");
        let name = license.get("name").cloned().unwrap_or_default();
        license.insert("identifier".to_owned(), name);
    }
}

/// Converts the schemas below a part of the document that is not a schema.
fn find_schemas(part: &mut Value) {
    match part {
        Value::Object(entries) => {
            for (key, entry) in entries {
                match key.as_str() {
                    "schema" => schema(entry),
                    "schemas" => named(entry),
                    "example" => {}
                    _ => find_schemas(entry),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(find_schemas),
        _ => {}
    }
}

/// Converts schemas by name.
fn named(schemas: &mut Value) {
    let schemas = schemas.as_object_mut().into_iter().flat_map(Map::values_mut);
    schemas.for_each(schema);
}

fn schema(value: &mut Value) {
    // `additionalProperties` can also be a boolean.
    let Some(schema) = value.as_object_mut() else {
        return;
    };
    for (key, part) in schema.iter_mut() {
        match key.as_str() {
            "properties" => named(part),
            "allOf" | TYPES => part.as_array_mut().into_iter().flatten().for_each(self::schema),
            "items" | "additionalProperties" => self::schema(part),
            _ => {}
        }
    }
    match schema.shift_remove(TYPES) {
        // A choice of one schema is that schema.
        Some(Value::Array(mut types)) if types.len() == 1 => {
            if let Some(Value::Object(only)) = types.pop() {
                schema.extend(only);
            }
        }
        Some(types) => {
            schema.insert("anyOf".to_owned(), types);
        }
        None => {}
    }
    if schema.shift_remove("nullable") == Some(Value::Bool(true)) {
        add_null(schema);
    }
    if let Some(example) = schema.shift_remove("example") {
        schema.insert("examples".to_owned(), json!([example]));
    }
    if schema.get("format").is_some_and(|format| format == "binary") {
        // The format remains, because most generators read only the format.
        schema.insert("contentMediaType".to_owned(), json!("application/octet-stream"));
    }
}

/// Adds null to the values of a schema.
fn add_null(schema: &mut Map<String, Value>) {
    let null = json!({ "type": "null" });
    if let Some(Value::Array(mut parts)) = schema.shift_remove("allOf") {
        // The lint `nullable-type` requires exactly one part, which is a reference.
        parts.push(null);
        schema.insert("oneOf".to_owned(), Value::Array(parts));
        return;
    }
    if let Some(Value::Array(types)) = schema.get_mut("anyOf") {
        types.push(null);
    }
    if let Some(kind) = schema.get_mut("type") {
        *kind = json!([kind.take(), "null"]);
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.push(Value::Null);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Converts one schema of a component.
    fn upgraded(schema: Value) -> Value {
        let mut root = json!({ "components": { "schemas": { "Key": schema } } });
        upgrade(&mut root);
        root["components"]["schemas"]["Key"].take()
    }

    #[test]
    fn nullable_types_become_lists_of_types() {
        assert_eq!(
            upgraded(json!({ "type": "string", "nullable": true, "enum": ["a"] })),
            json!({ "type": ["string", "null"], "enum": ["a", null] })
        );
        assert_eq!(
            upgraded(json!({ "type": "string", "nullable": false })),
            json!({ "type": "string" })
        );
    }

    #[test]
    fn nullable_references_become_unions_with_null() {
        let reference = json!({ "$ref": "#/components/schemas/Other" });
        assert_eq!(
            upgraded(json!({ "description": "Other.", "nullable": true, "allOf": [reference] })),
            json!({ "description": "Other.", "oneOf": [reference, { "type": "null" }] })
        );
        let described = json!({ "description": "Other.", "allOf": [reference] });
        assert_eq!(upgraded(described.clone()), described);
    }

    #[test]
    fn untyped_values_become_unions() {
        assert_eq!(
            upgraded(json!({ "description": "A value.", "x-types": [
                { "type": "string", "nullable": true }, { "type": "integer" },
            ] })),
            json!({ "description": "A value.", "anyOf": [{ "type": ["string", "null"] }, { "type": "integer" }] })
        );
    }

    #[test]
    fn union_of_one_schema_becomes_that_schema() {
        assert_eq!(
            upgraded(
                json!({ "description": "A value.", "nullable": true, "x-types": [{ "type": "object" }] })
            ),
            json!({ "description": "A value.", "type": ["object", "null"] })
        );
    }

    #[test]
    fn all_parts_of_a_schema_are_converted() {
        let nullable = json!({ "type": "string", "nullable": true });
        let converted = json!({ "type": ["string", "null"] });
        let wraps: [fn(&Value) -> Value; 4] = [
            |part: &Value| json!({ "type": "object", "properties": { "a": part, "nullable": part } }),
            |part: &Value| json!({ "type": "object", "additionalProperties": part }),
            |part: &Value| json!({ "type": "array", "items": part }),
            |part: &Value| json!({ "allOf": [part] }),
        ];
        for wrap in wraps {
            assert_eq!(upgraded(wrap(&nullable)), wrap(&converted));
        }
    }

    #[test]
    fn schemas_of_operations_are_converted_and_examples_are_not() {
        let media =
            json!({ "schema": { "type": "string", "nullable": true }, "example": { "nullable": true } });
        let mut root = json!({ "paths": { "/keys": { "get": {
            "parameters": [{ "name": "key", "schema": { "type": "string", "example": "a" }, "example": "b" }],
            "responses": { "200": { "content": { "application/json": media } } },
        } } } });
        upgrade(&mut root);
        let operation = &root["paths"]["/keys"]["get"];
        let parameter =
            json!({ "name": "key", "schema": { "type": "string", "examples": ["a"] }, "example": "b" });
        assert_eq!(operation["parameters"], json!([parameter]));
        assert_eq!(
            operation["responses"]["200"]["content"]["application/json"],
            json!({ "schema": { "type": ["string", "null"] }, "example": { "nullable": true } })
        );
    }

    #[test]
    fn files_have_a_media_type() {
        assert_eq!(
            upgraded(json!({ "type": "string", "format": "binary" })),
            json!({ "type": "string", "format": "binary", "contentMediaType": "application/octet-stream" })
        );
    }

    #[test]
    fn webhooks_are_converted() {
        let nullable = json!({ "schema": { "type": "string", "nullable": true } });
        let mut root = json!({ "x-webhooks": { "push": { "post": { "requestBody": nullable } } } });
        upgrade(&mut root);
        let converted = json!({ "schema": { "type": ["string", "null"] } });
        assert_eq!(
            root["webhooks"],
            json!({ "push": { "post": { "requestBody": converted } } })
        );
        assert_eq!(root["x-webhooks"], Value::Null);
    }

    #[test]
    fn metadata_is_that_of_version_3_1() {
        let mut root = json!({ "openapi": "3.0.3", "info": {
            "title": "Keys",
            "x-summary": "API for keys",
            "license": { "name": "MIT OR Apache-2.0", "url": "https://example.com" },
        } });
        upgrade(&mut root);
        let license = json!({ "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" });
        assert_eq!(root["openapi"], "3.1.1");
        assert_eq!(
            root["info"],
            json!({ "title": "Keys", "license": license, "summary": "API for keys" })
        );
    }
}
