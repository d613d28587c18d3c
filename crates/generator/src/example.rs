//! Checks an example against its schema, for the keywords that the contract uses.

use serde_json::Value;

use crate::load::{Document, TYPES};

/// Returns the faults of `value`, each with its position in the example.
pub fn check(document: &Document, schema: &Value, value: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    walk(document, schema, value, "", &mut faults);
    faults
}

fn walk(document: &Document, schema: &Value, value: &Value, at: &str, faults: &mut Vec<String>) {
    let target = document.deref(schema);
    if value.is_null() {
        let nullable = |schema: &Value| schema["nullable"] == Value::Bool(true);
        let typed = target.get("type").is_some() || target.get(TYPES).is_some();
        if typed && !nullable(schema) && !nullable(target) {
            faults.push(format!("{at}/ is null, but the schema is not nullable"));
        }
        return;
    }
    if let Some(parts) = target.get("allOf").and_then(Value::as_array) {
        parts
            .iter()
            .for_each(|part| walk(document, part, value, at, faults));
        return;
    }
    if let Some(types) = target.get(TYPES).and_then(Value::as_array) {
        if !types.iter().any(|one| check(document, one, value).is_empty()) {
            faults.push(format!("{at}/ has none of the types in `x-types`"));
        }
        return;
    }
    let Some(kind) = target.get("type").and_then(Value::as_str) else {
        return;
    };
    let fits = match kind {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    };
    if !fits {
        faults.push(format!("{at}/ is not of type {kind}"));
        return;
    }
    if let Some(values) = target.get("enum").and_then(Value::as_array)
        && !values.contains(value)
    {
        faults.push(format!("{at}/ is not one of the enumerated values"));
    }
    match value {
        Value::String(text) => self::text(target, text, at, faults),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                walk(document, &target["items"], item, &format!("{at}/{index}"), faults);
            }
        }
        Value::Object(entries) => object(document, target, entries, at, faults),
        _ => {}
    }
}

fn text(schema: &Value, text: &str, at: &str, faults: &mut Vec<String>) {
    let length = text.chars().count() as u64;
    let limit = |key: &str| schema.get(key).and_then(Value::as_u64);
    if limit("minLength").is_some_and(|min| length < min)
        || limit("maxLength").is_some_and(|max| length > max)
    {
        faults.push(format!("{at}/ is too short or too long"));
    }
    let digits = |range: std::ops::Range<usize>| {
        text.get(range)
            .is_some_and(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let date = digits(0..4) && digits(5..7) && digits(8..10) && text.get(4..5) == Some("-");
    let fits = match schema.get("format").and_then(Value::as_str) {
        Some("date") => date && text.len() == 10,
        Some("date-time") => date && text.get(10..11) == Some("T") && text.len() >= 20,
        _ => true,
    };
    if !fits {
        faults.push(format!("{at}/ does not match its format"));
    }
}

fn object(
    document: &Document,
    schema: &Value,
    entries: &serde_json::Map<String, Value>,
    at: &str,
    faults: &mut Vec<String>,
) {
    let required = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    for name in required.filter_map(Value::as_str) {
        if !entries.contains_key(name) {
            faults.push(format!("{at}/{name} is required but absent"));
        }
    }
    for (name, value) in entries {
        let at = format!("{at}/{name}");
        match (schema["properties"].get(name), schema.get("additionalProperties")) {
            (Some(property), _) => walk(document, property, value, &at, faults),
            (None, Some(free)) if free.is_object() => walk(document, free, value, &at, faults),
            (None, Some(Value::Bool(true))) => {}
            (None, _) if schema.get("properties").is_none() => {}
            (None, _) => faults.push(format!("{at} is not a property of the schema")),
        }
    }
}
