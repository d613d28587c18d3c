//! The validation of responses rejects what clients would not accept.

use boon::Draft;
use serde_json::{Value, json};

use crate::support::contract::to_json_schema;
use crate::support::schemas::CompiledSchemas;

/// Returns whether the validation of responses accepts a value.
fn accepts(schema: Value, value: &Value) -> bool {
    let components = to_json_schema(json!({ "schemas": { "Label": {
        "type": "object",
        "required": ["id"],
        "properties": { "id": { "type": "integer", "format": "int64" } },
    } } }));
    CompiledSchemas::new(Draft::V4, &components, vec![to_json_schema(schema)]).validate(0, value).is_ok()
}

fn values_of_other_types_are_rejected() {
    let integer = || json!({ "type": "integer", "format": "int64" });
    assert!(accepts(integer(), &json!(1)));
    for wrong in [json!(1.0), json!(1.5), json!(u64::MAX), json!("1"), json!(null)] {
        assert!(!accepts(integer(), &wrong), "{wrong}");
    }
    let date = || json!({ "type": "string", "format": "date" });
    assert!(accepts(date(), &json!("2026-11-30")));
    assert!(!accepts(date(), &json!("2026-11-31")));
    let time = || json!({ "type": "string", "format": "date-time" });
    assert!(accepts(time(), &json!("2026-11-30T12:00:00.000Z")));
    assert!(!accepts(time(), &json!("2026-11-30 12:00:00")));
}

fn null_is_accepted_only_if_documented() {
    assert!(accepts(json!({ "type": "string", "nullable": true }), &json!(null)));
    assert!(!accepts(json!({ "type": "string" }), &json!(null)));
}

fn undocumented_properties_are_rejected() {
    let label = || json!({ "$ref": "#/components/schemas/Label" });
    assert!(accepts(label(), &json!({ "id": 1 })));
    assert!(!accepts(label(), &json!({ "id": 1, "name": "bug" })));
    assert!(!accepts(label(), &json!({})));
    assert!(accepts(json!({ "type": "object" }), &json!({ "name": "bug" })));
}

harness::tests![
    values_of_other_types_are_rejected,
    null_is_accepted_only_if_documented,
    undocumented_properties_are_rejected,
];
