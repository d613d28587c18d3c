//! Types, constraints and attributes of schemas and parameters.

use serde_json::Value;

use super::block::{Attribute, Block, Input, Line, code, code_link, text};
use super::site::{Operation, Site, entries, items, reference, schema_target};
use super::{prose, sample};
use crate::defaults::IF_NONE_MATCH;

/// Maximum depth of attributes that are described within other attributes.
const MAX_DEPTH: usize = 2;
/// Maximum number of values of an enum that are listed.
const MAX_VALUES: usize = 16;

/// Returns the type of a schema in words.
pub(super) fn kind(site: &Site<'_>, schema: &Value) -> Line {
    let mut line = base_kind(site, schema);
    if schema["nullable"] == true {
        line.push(text(" or null"));
    }
    line
}

fn base_kind(site: &Site<'_>, schema: &Value) -> Line {
    if let Some(name) = reference(schema) {
        return vec![code_link(name, schema_target(name))];
    }
    if let Some(part) = schema["allOf"].get(0) {
        return base_kind(site, part);
    }
    if let Some(types) = schema["x-types"].as_array() {
        let mut line = Line::new();
        for (at, one) in types.iter().enumerate() {
            if at > 0 {
                line.push(text(" or "));
            }
            line.extend(kind(site, one));
        }
        return line;
    }
    match (schema["type"].as_str(), schema["format"].as_str()) {
        (Some("array"), _) => {
            let mut line = vec![text("list of ")];
            line.extend(kind(site, &schema["items"]));
            line
        }
        (Some("object"), _) => match schema.get("additionalProperties").filter(|one| one.is_object()) {
            Some(values) => {
                let mut line = vec![text("map of ")];
                line.extend(kind(site, values));
                line
            }
            None => vec![text("object")],
        },
        (Some("string"), Some("date-time")) => vec![text("time")],
        (Some("string"), Some("date")) => vec![text("date")],
        (Some("string"), Some("binary")) => vec![text("file")],
        (Some("string"), Some("comma-separated")) => vec![text("comma-separated string")],
        (Some(kind), _) => vec![text(kind)],
        (None, _) => vec![text("any value")],
    }
}

/// Returns the constraints of a schema as a line, empty without constraints.
fn constraints(site: &Site<'_>, schema: &Value) -> Line {
    let mut parts: Vec<Line> = Vec::new();
    let target = resolved(site, schema);
    let values: Vec<&Value> = items(&target["enum"]).collect();
    if !values.is_empty() && values.len() <= MAX_VALUES {
        let mut line = vec![text("One of ")];
        for (at, value) in values.iter().enumerate() {
            if at > 0 {
                line.push(text(", "));
            }
            line.push(code(plain(value)));
        }
        parts.push(line);
    }
    for (field, label) in [
        ("minLength", "Minimum length"),
        ("maxLength", "Maximum length"),
        ("minimum", "Minimum"),
        ("maximum", "Maximum"),
        ("minItems", "Minimum number of items"),
        ("maxItems", "Maximum number of items"),
    ] {
        // Nearly all strings with a minimum length are only not empty.
        if let Some(value) = schema[field]
            .as_i64()
            .filter(|value| field != "minLength" || *value > 1)
        {
            parts.push(vec![text(format!("{label}: {}", separated(value)))]);
        }
    }
    if !schema["default"].is_null() {
        parts.push(vec![text("Default: "), code(plain(&schema["default"]))]);
    }
    let mut line = Line::new();
    for part in parts {
        if !line.is_empty() {
            line.push(text(". "));
        }
        line.extend(part);
    }
    if !line.is_empty() {
        line.push(text("."));
    }
    line
}

/// Returns the referenced schema of a reference, also within `allOf`.
fn resolved<'a>(site: &Site<'a>, schema: &'a Value) -> &'a Value {
    site.deref(schema["allOf"].get(0).unwrap_or(schema))
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns a number with separators of thousands.
pub(super) fn separated(value: i64) -> String {
    let digits = value.unsigned_abs().to_string();
    let mut text = String::from(if value < 0 { "-" } else { "" });
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns the attributes of an object. `prefix` starts their identifiers.
pub(super) fn of_object<'a>(
    site: &Site<'a>,
    schema: &'a Value,
    prefix: &str,
    depth: usize,
) -> Vec<Attribute> {
    let schema = site.deref(schema);
    let required = |name: &str| items(&schema["required"]).any(|one| one == name);
    let properties = entries(&schema["properties"]);
    let attributes = properties.map(|(name, property)| {
        let anchor = format!("{prefix}-{name}");
        let nested = match depth < MAX_DEPTH {
            true => nested(site, property, &anchor, depth),
            false => Vec::new(),
        };
        Attribute {
            name: name.to_owned(),
            kind: kind(site, property),
            flags: flags(required(name), property),
            description: description(site, property, property),
            input: None,
            nested,
            anchor,
        }
    });
    attributes.collect()
}

/// Returns the attributes of an object or of the objects in a list.
fn nested<'a>(site: &Site<'a>, property: &'a Value, anchor: &str, depth: usize) -> Vec<Attribute> {
    let item = if property["type"] == "array" {
        &property["items"]
    } else {
        property
    };
    let target = resolved(site, item);
    match target.get("properties") {
        Some(_) => of_object(site, target, anchor, depth + 1),
        None => Vec::new(),
    }
}

/// Returns the attributes of a response, without those of its attributes. Nearly all are always present, so the others
/// are marked.
pub(super) fn of_response<'a>(site: &Site<'a>, schema: &'a Value, prefix: &str) -> Vec<Attribute> {
    let mut attributes = of_object(site, schema, prefix, MAX_DEPTH);
    for attribute in &mut attributes {
        match attribute.flags.iter().position(|flag| *flag == "required") {
            Some(at) => drop(attribute.flags.remove(at)),
            None => attribute.flags.insert(0, "optional"),
        }
    }
    attributes
}

fn flags(required: bool, value: &Value) -> Vec<&'static str> {
    let mut flags = Vec::new();
    if required {
        flags.push("required");
    }
    if value["deprecated"] == true {
        flags.push("deprecated");
    }
    flags
}

/// Returns the description of a value and its constraints. A reference has the first sentence of its target.
fn description<'a>(site: &Site<'a>, value: &'a Value, schema: &'a Value) -> Vec<Block> {
    let mut blocks = match value["description"].as_str() {
        Some(source) => prose::blocks(site, source),
        None => {
            let source = resolved(site, schema)["description"].as_str().unwrap_or_default();
            vec![Block::Paragraph(prose::line_of(site, prose::sentence(source)))]
        }
    };
    let line = constraints(site, schema);
    if !line.is_empty() {
        blocks.push(Block::Paragraph(line));
    }
    blocks
}

/// Returns the parameters of an operation. Attributes of an object in the query are parameters of their own, with the
/// names that are sent.
pub(super) fn parameters(site: &Site<'_>, operation: &Operation<'_>) -> Vec<Attribute> {
    let mut attributes = Vec::new();
    for parameter in &operation.parameters {
        let name = parameter["name"].as_str().unwrap_or_default();
        let location = location(parameter);
        let schema = &parameter["schema"];
        // Every read has this header; the guide to revalidation describes it.
        if name == IF_NONE_MATCH {
            continue;
        }
        if parameter["style"] == "deepObject" && site.deref(schema).get("properties").is_some() {
            attributes.extend(members(site, name, schema));
            continue;
        }
        let required = parameter["required"] == true;
        let example = match location {
            "path" => sample::value(site, operation, parameter),
            _ => String::new(),
        };
        attributes.push(Attribute {
            anchor: format!("{location}-{name}"),
            name: name.to_owned(),
            kind: kind(site, schema),
            flags: flags(required && location != "path", parameter),
            description: description(site, parameter, schema),
            input: Some(Input {
                example,
                ..input(site, location, schema, required)
            }),
            nested: Vec::new(),
        });
    }
    attributes
}

/// Returns the members of an object in the query.
fn members(site: &Site<'_>, object: &str, schema: &Value) -> Vec<Attribute> {
    let properties = entries(&site.deref(schema)["properties"]);
    let attributes = properties.map(|(name, property)| {
        let list = if property["type"] == "array" { "[]" } else { "" };
        let name = format!("{object}[{name}]{list}");
        Attribute {
            anchor: format!("query-{name}"),
            kind: kind(site, property),
            flags: flags(false, property),
            description: prose::blocks(site, property["description"].as_str().unwrap_or_default()),
            input: Some(input(site, "query", property, false)),
            nested: Vec::new(),
            name,
        }
    });
    attributes.collect()
}

/// Returns the attributes of a form.
pub(super) fn of_form<'a>(site: &Site<'a>, schema: &'a Value) -> Vec<Attribute> {
    let target = site.deref(schema);
    let mut attributes = of_object(site, target, "form", MAX_DEPTH);
    for attribute in &mut attributes {
        let property = &target["properties"][attribute.name.as_str()];
        let required = attribute.flags.contains(&"required");
        attribute.input = Some(input(site, "form", property, required));
    }
    attributes
}

fn location(parameter: &Value) -> &'static str {
    match parameter["in"].as_str() {
        Some("path") => "path",
        Some("header") => "header",
        _ => "query",
    }
}

fn input(site: &Site<'_>, location: &'static str, schema: &Value, required: bool) -> Input {
    let target = site.deref(schema);
    let values: Vec<String> = items(&target["enum"]).map(plain).collect();
    let control = match (target["type"].as_str(), target["format"].as_str()) {
        _ if !values.is_empty() => "choice",
        (Some("boolean"), _) => "boolean",
        (Some("integer"), _) => "integer",
        (Some("array"), _) => "list",
        (Some("object"), _) => "map",
        (_, Some("binary")) => "file",
        _ => "text",
    };
    Input {
        location,
        control,
        values: values.join("|"),
        example: String::new(),
        required,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_have_separators() {
        for (value, expected) in [
            (5, "5"),
            (1_024, "1,024"),
            (-1_048_576, "-1,048,576"),
            (100, "100"),
        ] {
            assert_eq!(separated(value), expected);
        }
    }

    #[test]
    fn types_are_words_and_links() {
        let root = json!({ "components": { "schemas": { "Key": { "type": "object" } } } });
        let site = Site::new(&root);
        let key = code_link("Key", "/docs/schema/Key");
        let reference = json!({ "$ref": "#/components/schemas/Key" });
        for (schema, expected) in [
            (
                json!({ "type": "array", "items": reference }),
                vec![text("list of "), key.clone()],
            ),
            (
                json!({ "allOf": [reference], "nullable": true }),
                vec![key.clone(), text(" or null")],
            ),
            (
                json!({ "type": "object", "additionalProperties": reference }),
                vec![text("map of "), key],
            ),
            (
                json!({ "type": "string", "format": "date-time" }),
                vec![text("time")],
            ),
        ] {
            assert_eq!(kind(&site, &schema), expected);
        }
    }

    #[test]
    fn members_of_objects_in_the_query_have_the_names_that_are_sent() {
        let schema = json!({ "properties": { "iids": { "type": "array", "items": { "type": "integer" } }, "label": { "type": "string" } } });
        let parameter = json!({ "name": "not", "in": "query", "style": "deepObject", "schema": schema });
        let root = json!({ "paths": { "/keys": { "get": { "operationId": "list_keys", "parameters": [parameter] } } } });
        let site = Site::new(&root);
        let names: Vec<String> = parameters(&site, &site.operations[0])
            .into_iter()
            .map(|one| one.name)
            .collect();
        assert_eq!(names, ["not[iids][]", "not[label]"]);
    }

    #[test]
    fn recursive_objects_end() {
        let root = json!({ "components": { "schemas": { "Key": { "type": "object", "properties": {
            "parent": { "$ref": "#/components/schemas/Key" },
        } } } } });
        let site = Site::new(&root);
        let attributes = of_object(&site, &root["components"]["schemas"]["Key"], "body", 0);
        assert_eq!(attributes[0].nested[0].nested.len(), 1);
        assert!(attributes[0].nested[0].nested[0].nested.is_empty());
    }
}
