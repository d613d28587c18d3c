//! Parameter groups: the expansion, and one failing input for each fault.

use generator::{emit, lower};
use serde_json::Value;

use super::{loaded, small};

const GROUPS: &str = "
KeyFilter:
  description: Filters of keys.
  parameters:
    - {name: kind, in: query, description: Only this kind., schema: {$ref: '#/components/schemas/KeyKind'}}
    - {name: level, in: query, description: Only this level., schema: {type: integer, format: int64}}
KeyChange:
  description: Attributes of a change.
  required: [title]
  properties:
    title: {type: string, maxLength: 9, description: Title.}
    note: {type: string, maxLength: 9, nullable: true, description: Note.}
";

/// Uses each group twice: in the small contract, and in additional operations and schemas.
fn grouped(change: impl Fn(&str, &str) -> String) -> Vec<(&'static str, String)> {
    let mut files = small();
    let operation = |id: &str, body: &str| {
        format!(
            "/api/v4/{id}:\n  post:\n    operationId: {id}\n    tags: [Keys]\n    x-access: {{'on': instance, min: none}}\n    \
             x-parameter-groups: [KeyFilter]\n    parameters:\n      - {{name: first, in: query, description: First., \
             schema: {{type: boolean}}}}\n    requestBody:\n      content:\n        application/json:\n          schema: \
             {{$ref: '#/components/schemas/{body}'}}\n    responses:\n      '204': {{description: Done.}}\n"
        )
    };
    let schema = |name: &str| {
        format!(
            "{name}:\n  type: object\n  description: A body.\n  required: [title]\n  properties:\n    before: {{type: boolean, \
             description: Before.}}\n    x-include: [KeyChange]\n    after: {{type: boolean, description: After.}}\n"
        )
    };
    files[1].1 += &operation("grouped_one", "GroupedOne");
    files[1].1 += &operation("grouped_two", "GroupedTwo");
    files[2].1 += &schema("GroupedOne");
    files[2].1 += &schema("GroupedTwo");
    files.push(("shared/parameter_groups.yaml", GROUPS.to_owned()));
    for (name, text) in &mut files {
        *text = change(name, text);
    }
    files
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(|entry| entry["name"].as_str())
        .collect()
}

#[test]
fn groups_are_expanded_to_plain_openapi() {
    let document = loaded(&grouped(|_, text| text.to_owned())).unwrap_or_else(|faults| panic!("{faults:?}"));
    let operation = &document.root["paths"]["/api/v4/grouped_one"]["post"];
    assert_eq!(names(&operation["parameters"]), ["kind", "level", "first"]);
    let properties = document.root["components"]["schemas"]["GroupedOne"]["properties"]
        .as_object()
        .expect("properties");
    assert_eq!(
        properties.keys().collect::<Vec<_>>(),
        ["before", "title", "note", "after"]
    );
    let text = document.root.to_string();
    assert!(!text.contains("x-parameter-groups") && !text.contains("x-include"));
}

#[test]
fn listed_parameter_of_a_group_keeps_its_position() {
    let listed = "      - {name: first, in: query, description: First., schema: {type: boolean}}\n      - {name: kind, in: query, \
                  description: Only this kind., schema: {$ref: '#/components/schemas/KeyKind'}}\n";
    let document = loaded(&grouped(|_, text| {
        text.replace(
            "      - {name: first, in: query, description: First., schema: {type: boolean}}\n",
            listed,
        )
    }))
    .unwrap_or_else(|faults| panic!("{faults:?}"));
    let operation = &document.root["paths"]["/api/v4/grouped_one"]["post"];
    assert_eq!(names(&operation["parameters"]), ["level", "first", "kind"]);
}

#[test]
fn group_is_one_struct_that_requests_and_bodies_contain() {
    let document = loaded(&grouped(|_, text| text.to_owned())).unwrap_or_else(|faults| panic!("{faults:?}"));
    let contract = lower::lower(&document).expect("a contract");
    let types = emit::types(&contract).expect("Rust");
    assert_eq!(types.matches("pub struct KeyFilter {").count(), 1);
    assert_eq!(types.matches("pub key_filter: KeyFilter,").count(), 2);
    assert_eq!(types.matches("pub key_change: KeyChange,").count(), 2);
    assert!(types.contains("pub note: MaybeUndefined<String>,"));
}

/// Replaces a text and returns the rules of the faults.
fn faults(from: &str, to: &str) -> Vec<&'static str> {
    let changed = grouped(|_, text| text.replacen(from, to, 1));
    let faults = loaded(&changed).err().expect("faults");
    faults.iter().map(|fault| fault.rule).collect()
}

#[test]
fn faulty_groups_are_rejected() {
    for (from, to, rule) in [
        (
            "x-parameter-groups: [KeyFilter]",
            "x-parameter-groups: [Other]",
            "group",
        ),
        (
            "x-parameter-groups: [KeyFilter]",
            "x-parameter-groups: [KeyChange]",
            "group",
        ),
        (
            "x-parameter-groups: [KeyFilter]",
            "x-parameter-groups: [KeyFilter, KeyFilter]",
            "group-overlap",
        ),
        ("    x-parameter-groups: [KeyFilter]\n", "", "group-uses"),
        (
            "    x-include: [KeyChange]\n",
            "    title: {type: string, description: Title.}\n",
            "group-uses",
        ),
        (
            "    x-include: [KeyChange]\n",
            "    x-include: [KeyChange, KeyChange]\n",
            "group-overlap",
        ),
        (
            "    x-include: [KeyChange]\n",
            "    x-include: [KeyChange]\n    title: {type: string, maxLength: 8, description: Title.}\n",
            "group-differs",
        ),
        (
            "  required: [title]\n  properties:\n    before",
            "  properties:\n    before",
            "group-required",
        ),
        ("  description: Filters of keys.\n", "", "group-keys"),
        (
            "  description: Filters of keys.\n",
            "  description: Filters of keys.\n  items: []\n",
            "group-keys",
        ),
    ] {
        let found = faults(from, to);
        assert!(found.contains(&rule), "{from:?} -> {to:?}: {found:?}");
    }
}

#[test]
fn groups_are_for_bodies_and_not_for_responses() {
    let changed = grouped(|_, text| {
        text.replace(
            "      '204': {description: Done.}\n",
            "      '200': {description: Done., content: {application/json: {schema: {$ref: '#/components/schemas/GroupedOne'}}}}\n",
        )
    });
    let document = loaded(&changed).unwrap_or_else(|faults| panic!("{faults:?}"));
    let faults = lower::lower(&document).err().expect("faults");
    assert!(
        faults.iter().any(|fault| fault.rule == "group-body"),
        "{faults:?}"
    );
}
