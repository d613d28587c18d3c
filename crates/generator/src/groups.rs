//! Expands groups: parameters and attributes that several operations or bodies share.
//!
//! The groups are in `shared/parameter_groups.yaml`. An operation names its groups in `x-parameter-groups`, and a
//! body schema has the pseudo-property `x-include` at the position of the attributes. The expansion removes
//! these fields, so the published document has none of them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::load::{Document, Fault, escape};
use crate::lower::METHODS;

/// File with the groups.
pub const FILE: &str = "shared/parameter_groups.yaml";

/// The groups of a document.
#[derive(Default)]
pub struct Groups {
    /// Groups by name: an object with a description, and with `parameters` or `properties`.
    pub definitions: Map<String, Value>,
    /// Names of the groups of each operation, by the pointer of the operation.
    pub operations: BTreeMap<String, Vec<String>>,
    /// Names of the groups of each schema, by the name of the schema.
    pub schemas: BTreeMap<String, Vec<String>>,
}

/// Expands all groups in the document.
///
/// # Errors
/// Groups that do not exist, are used only once, or overlap.
pub fn expand(document: &mut Document, definitions: Map<String, Value>) -> Result<(), Vec<Fault>> {
    document.groups.definitions = definitions;
    let mut expansion = Expansion {
        faults: Vec::new(),
        uses: BTreeMap::new(),
    };
    expansion.operations(document);
    expansion.schemas(document);
    expansion.check_uses(document);
    if expansion.faults.is_empty() {
        Ok(())
    } else {
        Err(expansion.faults)
    }
}

/// Removes a list of names from an object.
fn take_names(object: &mut Map<String, Value>, key: &str) -> Option<Vec<String>> {
    let names = object.shift_remove(key)?;
    let names = names.as_array().into_iter().flatten();
    Some(names.filter_map(Value::as_str).map(str::to_owned).collect())
}

fn without_description(property: &Value) -> Value {
    let mut property = property.clone();
    if let Some(property) = property.as_object_mut() {
        property.remove("description");
    }
    property
}

struct Expansion {
    faults: Vec<Fault>,
    /// Number of uses of each group.
    uses: BTreeMap<String, usize>,
}

impl Expansion {
    /// Returns the entries of a group, and counts the use.
    fn entries(&mut self, document: &Document, pointer: &str, name: &str, kind: &str) -> Value {
        *self.uses.entry(name.to_owned()).or_default() += 1;
        let entries = document
            .groups
            .definitions
            .get(name)
            .and_then(|group| group.get(kind));
        if entries.is_none() {
            let message = format!("{FILE} has no group `{name}` with {kind}");
            self.faults.push(document.fault(pointer, "group", message));
        }
        entries.cloned().unwrap_or_default()
    }

    /// Inserts the parameters of groups before the parameters of each operation. A parameter that the operation
    /// lists itself keeps its position.
    fn operations(&mut self, document: &mut Document) {
        let mut paths = document.root["paths"].take();
        for (path, item) in paths.as_object_mut().into_iter().flatten() {
            for method in METHODS {
                let Some(operation) = item.get_mut(method).and_then(Value::as_object_mut) else {
                    continue;
                };
                let Some(names) = take_names(operation, "x-parameter-groups") else {
                    continue;
                };
                let pointer = format!("/paths/{}/{method}", escape(path));
                let own = operation.get("parameters").and_then(Value::as_array);
                let own = own.cloned().unwrap_or_default();
                let (mut expanded, mut known) = (Vec::new(), Vec::new());
                for name in &names {
                    let entries = self.entries(document, &pointer, name, "parameters");
                    for entry in entries.as_array().into_iter().flatten() {
                        if known.contains(entry) {
                            let message = format!("a parameter of `{name}` is also in another group");
                            self.faults
                                .push(document.fault(&pointer, "group-overlap", message));
                        }
                        known.push(entry.clone());
                        if !own.contains(entry) {
                            expanded.push(entry.clone());
                        }
                    }
                }
                expanded.extend(own);
                operation.insert("parameters".to_owned(), Value::Array(expanded));
                document.groups.operations.insert(pointer, names);
            }
        }
        document.root["paths"] = paths;
    }

    /// Replaces the pseudo-property of each schema by the properties of its groups.
    fn schemas(&mut self, document: &mut Document) {
        let mut schemas = document.root["components"]["schemas"].take();
        for (schema, value) in schemas.as_object_mut().into_iter().flatten() {
            if value["properties"].get("x-include").is_none() {
                continue;
            }
            let pointer = format!("/components/schemas/{}", escape(schema));
            let required = value.get("required").cloned().unwrap_or_default();
            let Some(properties) = value.get_mut("properties").and_then(Value::as_object_mut) else {
                continue;
            };
            let own = std::mem::take(properties);
            let mut expanded = Map::new();
            let mut names = Vec::new();
            for (property, value) in &own {
                if property != "x-include" {
                    expanded.insert(property.clone(), value.clone());
                    continue;
                }
                let included = value.as_array().into_iter().flatten().filter_map(Value::as_str);
                for name in included.map(str::to_owned) {
                    self.include(document, &pointer, &name, &own, &required, &mut expanded);
                    names.push(name);
                }
            }
            *properties = expanded;
            document.groups.schemas.insert(schema.clone(), names);
        }
        document.root["components"]["schemas"] = schemas;
    }

    /// Adds the properties of a group that a schema does not list itself. A property that the schema lists may
    /// differ from the group in its description.
    fn include(
        &mut self,
        document: &Document,
        pointer: &str,
        name: &str,
        own: &Map<String, Value>,
        required: &Value,
        properties: &mut Map<String, Value>,
    ) {
        let entries = self.entries(document, pointer, name, "properties");
        let group = document.groups.definitions.get(name);
        let of_group = group.map_or(&Value::Null, |group| &group["required"]);
        let listed = |list: &Value, property: &str| {
            let mut names = list.as_array().into_iter().flatten();
            names.any(|name| name == property)
        };
        for (property, value) in entries.as_object().into_iter().flatten() {
            if listed(of_group, property) != listed(required, property) {
                let message = format!("`{property}` must be required in both the schema and `{name}`");
                self.faults
                    .push(document.fault(pointer, "group-required", message));
            }
            match own.get(property) {
                Some(listed) if without_description(listed) == without_description(value) => {}
                Some(_) => {
                    let message = format!("`{property}` differs from `{name}` in more than its description");
                    self.faults
                        .push(document.fault(pointer, "group-differs", message));
                }
                None if properties.contains_key(property) => {
                    let message = format!("`{property}` is also in another group");
                    self.faults
                        .push(document.fault(pointer, "group-overlap", message));
                }
                None => {
                    properties.insert(property.clone(), value.clone());
                }
            }
        }
    }

    fn check_uses(&mut self, document: &Document) {
        for (name, group) in &document.groups.definitions {
            let known = ["description", "parameters", "properties", "required"];
            let mut keys = group
                .as_object()
                .into_iter()
                .flatten()
                .map(|(key, _)| key.as_str());
            if group["description"].as_str().is_none() || keys.any(|key| !known.contains(&key)) {
                self.faults.push(Fault {
                    file: FILE.to_owned(),
                    pointer: format!("/{}", escape(name)),
                    rule: "group-keys",
                    message: "a group has a description, and parameters or properties".to_owned(),
                });
            }
            if self.uses.get(name).copied().unwrap_or_default() < 2 {
                self.faults.push(Fault {
                    file: FILE.to_owned(),
                    pointer: format!("/{}", escape(name)),
                    rule: "group-uses",
                    message: format!("`{name}` is used by fewer than two operations or schemas"),
                });
            }
        }
    }
}
