//! Properties of the parameters that a parser returns.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::form;

/// Checks that parameters are nested to a limited depth, and contain only values of the pairs.
pub(super) fn check_parameters(parameters: &Result<Map<String, Value>, String>, pairs: &[(String, String)]) {
    let Ok(parameters) = parameters else { return };
    let values: HashSet<&str> = pairs.iter().map(|(_, value)| value.as_str()).collect();
    let mut leaves = 0;
    let mut open: Vec<(&Value, usize)> = parameters.values().map(|value| (value, 0)).collect();
    while let Some((value, depth)) = open.pop() {
        assert!(depth <= form::MAX_DEPTH, "{depth}");
        match value {
            Value::Array(items) => open.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(entries) => open.extend(entries.values().map(|entry| (entry, depth + 1))),
            Value::String(text) => {
                leaves += 1;
                assert!(values.contains(text.as_str()));
            }
            other => panic!("{other} is not a string"),
        }
    }
    assert!(leaves <= pairs.len());
    assert!(leaves > 0 || pairs.is_empty());
}
