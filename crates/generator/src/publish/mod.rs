//! Renders the published documents from the loaded document (ADR 55).
//!
//! The document is authored in OpenAPI 3.0.3. [`links`] connects its operations, [`upgrade`] derives the 3.1.1 form,
//! [`hints`] adds what SDK generators read in that form, and [`sdk`] reduces both forms for these generators.

mod hints;
pub mod links;
mod sdk;
mod upgrade;

use serde_json::{Map, Value};

use crate::lower::METHODS;

/// A rendering of the document.
pub struct Published {
    /// Name of the file, such as `openapi-3.1.json`.
    pub file: String,
    /// Content of the file.
    pub text: String,
}

/// Returns all renderings of a document that passed the lints: two versions, complete and reduced for SDK generators,
/// each as JSON with a trailing newline and as YAML.
///
/// # Errors
/// Failures of the serializers.
pub fn publish(root: &Value) -> Result<Vec<Published>, String> {
    let authored = authored(root);
    let mut derived = authored.clone();
    upgrade::upgrade(&mut derived);
    hints::add(&mut derived);
    let mut rendered = Vec::new();
    for (name, complete) in [("openapi", authored), ("openapi-3.1", derived)] {
        let reduced = sdk::reduced(&complete);
        render(name, &complete, &mut rendered)?;
        render(&format!("{name}-sdk"), &reduced, &mut rendered)?;
    }
    Ok(rendered)
}

/// Returns the document as authored, with the links between its operations.
#[must_use]
pub fn authored(root: &Value) -> Value {
    let mut authored = root.clone();
    links::add(&mut authored);
    authored
}

fn render(name: &str, root: &Value, rendered: &mut Vec<Published>) -> Result<(), String> {
    let json = serde_json::to_string_pretty(root).map_err(|error| error.to_string())? + "\n";
    let yaml = yaml_serde::to_string(root).map_err(|error| error.to_string())?;
    for (extension, text) in [("json", json), ("yaml", yaml)] {
        let file = format!("{name}.{extension}");
        rendered.push(Published { file, text });
    }
    Ok(())
}

/// Calls a function with the method and the content of every operation.
fn each_operation(root: &mut Value, mut change: impl FnMut(&str, &mut Map<String, Value>)) {
    let items = root["paths"]
        .as_object_mut()
        .into_iter()
        .flat_map(Map::values_mut);
    for item in items {
        for method in METHODS {
            if let Some(operation) = item.get_mut(method).and_then(Value::as_object_mut) {
                change(method, operation);
            }
        }
    }
}
