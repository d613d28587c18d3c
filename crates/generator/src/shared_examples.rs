//! Expands shared examples, which several files of the contract use.
//!
//! The examples are in `shared/examples.yaml`. In an example, an object with the attribute `$example` is the shared example
//! with this name. Other attributes of the object replace attributes of the shared example, or extend it. A shared example
//! can refer to an earlier one. The published document contains only the expanded examples.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::load::{Document, Fault, escape};

/// File with the examples.
pub const FILE: &str = "shared/examples.yaml";
/// Attribute with the name of a shared example.
const REFERENCE: &str = "$example";

/// Expands all shared examples in the document.
///
/// # Errors
/// Examples that do not exist or are not used.
pub fn expand(document: &mut Document, definitions: Map<String, Value>) -> Result<(), Vec<Fault>> {
    let mut expansion = Expansion {
        examples: Map::new(),
        used: BTreeSet::new(),
        unknown: Vec::new(),
    };
    for (name, mut example) in definitions {
        expansion.expand("", &mut example);
        expansion.examples.insert(name, example);
    }
    expansion.find("", &mut document.root);
    let unknown = expansion.unknown.iter().map(|(pointer, name)| {
        let message = format!("{FILE} has no example `{name}`");
        document.fault(pointer, "shared-example", message)
    });
    let unused = expansion.examples.keys();
    let unused = unused.filter(|name| !expansion.used.contains(*name));
    let unused = unused.map(|name| Fault {
        file: FILE.to_owned(),
        pointer: format!("/{}", escape(name)),
        rule: "shared-example",
        message: "no example refers to this shared example".to_owned(),
    });
    let faults: Vec<Fault> = unknown.chain(unused).collect();
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

struct Expansion {
    /// The expanded examples by name.
    examples: Map<String, Value>,
    used: BTreeSet<String>,
    /// Pointers to the references to examples that do not exist, and the names of the examples.
    unknown: Vec<(String, String)>,
}

impl Expansion {
    /// Expands the examples of all parts of the document.
    fn find(&mut self, pointer: &str, part: &mut Value) {
        match part {
            Value::Object(object) => {
                for (name, value) in object {
                    let pointer = format!("{pointer}/{}", escape(name));
                    match name.as_str() {
                        "example" => self.expand(&pointer, value),
                        _ => self.find(&pointer, value),
                    }
                }
            }
            Value::Array(items) => {
                for (at, item) in items.iter_mut().enumerate() {
                    self.find(&format!("{pointer}/{at}"), item);
                }
            }
            _ => {}
        }
    }

    /// Replaces the references in an example.
    fn expand(&mut self, pointer: &str, value: &mut Value) {
        match value {
            Value::Object(object) => {
                for value in object.values_mut() {
                    self.expand(pointer, value);
                }
                let Some(name) = object.shift_remove(REFERENCE) else {
                    return;
                };
                let name = name.as_str().unwrap_or_default();
                match self.examples.get(name).and_then(Value::as_object) {
                    Some(shared) => {
                        self.used.insert(name.to_owned());
                        let mut expanded = shared.clone();
                        expanded.extend(std::mem::take(object));
                        *object = expanded;
                    }
                    None => self.unknown.push((pointer.to_owned(), name.to_owned())),
                }
            }
            Value::Array(items) => {
                for item in items {
                    self.expand(pointer, item);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::groups::Groups;

    fn expanded(root: Value, examples: Value) -> Result<Value, Vec<String>> {
        let mut document = Document {
            root,
            path_files: BTreeMap::new(),
            component_files: BTreeMap::new(),
            groups: Groups::default(),
        };
        let Value::Object(examples) = examples else {
            panic!("examples by name");
        };
        match expand(&mut document, examples) {
            Ok(()) => Ok(document.root),
            Err(faults) => Err(faults.iter().map(ToString::to_string).collect()),
        }
    }

    #[test]
    fn own_attributes_replace_and_extend_the_shared_example() {
        let root = json!({ "content": { "example": [{ "id": 1, "user": { "$example": "user", "name": "Ben", "bot": true } }] } });
        let examples = json!({ "user": { "id": 2, "name": "Ada" } });
        let user = json!({ "id": 2, "name": "Ben", "bot": true });
        let expected = json!({ "content": { "example": [{ "id": 1, "user": user }] } });
        assert_eq!(expanded(root, examples), Ok(expected));
    }

    #[test]
    fn shared_example_extends_an_earlier_one() {
        let root = json!({ "example": { "$example": "user" } });
        let examples = json!({ "name": { "id": 2 }, "user": { "$example": "name", "bot": false } });
        assert_eq!(
            expanded(root, examples),
            Ok(json!({ "example": { "id": 2, "bot": false } }))
        );
        let reversed = json!({ "user": { "$example": "name" }, "name": { "id": 2 } });
        let faults = expanded(json!({ "example": { "$example": "user" } }), reversed).unwrap_err();
        assert_eq!(
            faults,
            [
                "openapi/openapi.yaml  [shared-example] shared/examples.yaml has no example `name`",
                "openapi/shared/examples.yaml /name [shared-example] no example refers to this shared example",
            ]
        );
    }

    #[test]
    fn references_outside_examples_are_unchanged() {
        let root = json!({ "a": { "$example": "user" }, "example": { "$example": "user" } });
        let expected = json!({ "a": { "$example": "user" }, "example": { "id": 2 } });
        assert_eq!(expanded(root, json!({ "user": { "id": 2 } })), Ok(expected));
    }

    #[test]
    fn unknown_and_unused_examples_are_faults() {
        let root = json!({ "paths": { "/a": { "example": [{ "$example": "user" }] } } });
        let faults = expanded(root, json!({ "group": {} })).unwrap_err();
        assert_eq!(
            faults,
            [
                "openapi/openapi.yaml /paths/~1a/example [shared-example] shared/examples.yaml has no example `user`",
                "openapi/shared/examples.yaml /group [shared-example] no example refers to this shared example",
            ]
        );
    }
}
