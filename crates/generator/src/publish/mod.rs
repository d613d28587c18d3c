//! Renders the published documents from the loaded document (ADR 55).
//!
//! The document is authored in OpenAPI 3.0.3. [`links`] connects its operations, [`upgrade`] derives the 3.1.1 form,
//! [`hints`] adds what SDK generators read in that form, and [`sdk`] reduces both forms for these generators. The complete
//! 3.1.1 form also has samples, which viewers show. [`stainless`] writes the configuration of a generator that needs one.

mod hints;
pub mod links;
mod sdk;
mod stainless;
mod upgrade;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::lower::METHODS;

/// A rendering of the document.
pub struct Published {
    /// Name of the file, such as `openapi-3.1.json`.
    pub file: String,
    /// Content of the file.
    pub text: String,
}

/// The renderings of a document, and the files that SDK generators read in addition.
pub struct Publication {
    /// Two versions of the document, complete and reduced for SDK generators, each as JSON with a trailing newline and as
    /// YAML.
    pub documents: Vec<Published>,
    /// Configuration of Stainless in YAML.
    pub stainless: String,
}

/// Renders a document that passed the lints. `code_samples` are the samples of operations by ID.
///
/// # Errors
/// Failures of the serializers.
pub fn publish(root: &Value, code_samples: &BTreeMap<String, Value>) -> Result<Publication, String> {
    let authored = authored(root);
    let mut derived = authored.clone();
    upgrade::upgrade(&mut derived);
    hints::add(&mut derived);
    let mut reduced = [&authored, &derived].map(sdk::reduced);
    hints::describe_values(&mut reduced[0]);
    each_operation(&mut derived, |_, _, operation| {
        let id = operation.get("operationId").and_then(Value::as_str);
        if let Some(samples) = id.and_then(|id| code_samples.get(id)) {
            operation.insert("x-codeSamples".to_owned(), samples.clone());
        }
    });
    hints::name_descriptions(&mut derived);
    let mut rendered = Vec::new();
    let [authored_sdk, derived_sdk] = &mut reduced;
    let stainless = stainless::configuration(derived_sdk);
    for (name, document) in [
        ("openapi", &authored),
        ("openapi-sdk", authored_sdk),
        ("openapi-3.1", &derived),
        ("openapi-3.1-sdk", derived_sdk),
    ] {
        render(name, document, &mut rendered)?;
    }
    Ok(Publication {
        documents: rendered,
        stainless: yaml_serde::to_string(&stainless).map_err(|error| error.to_string())?,
    })
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

/// Calls a function with the path, the method and the content of every operation.
fn each_operation(root: &mut Value, mut change: impl FnMut(&str, &str, &mut Map<String, Value>)) {
    for (path, item) in root["paths"].as_object_mut().into_iter().flatten() {
        for method in METHODS {
            if let Some(operation) = item.get_mut(method).and_then(Value::as_object_mut) {
                change(path, method, operation);
            }
        }
    }
}
