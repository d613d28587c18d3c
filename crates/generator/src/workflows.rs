//! Workflows in the Arazzo format (`openapi/arazzo.yaml`): sequences of calls that solve common tasks.
//!
//! The build checks that each step calls an existing operation with its parameters and attributes. The tests of the server
//! execute all workflows.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use serde_json::Value;

use crate::load::{self, Document, entries, items};
use crate::lower::METHODS;

/// Name of the file, relative to the folder of the contract.
const FILE: &str = "arazzo.yaml";

/// The workflows of a contract.
pub struct Workflows {
    /// The file as it is published.
    pub text: String,
    /// Its content.
    value: Value,
}

/// Reads the workflows of a contract; none without the file.
///
/// # Errors
/// A file that cannot be read or parsed.
pub fn load(folder: &Path) -> Result<Option<Workflows>, String> {
    let file = load::optional_file(folder, FILE)?;
    Ok(file.map(|(text, value)| Workflows { text, value }))
}

impl Workflows {
    /// Checks that the steps fit to the operations of a document.
    ///
    /// # Errors
    /// All faults, one on each line.
    pub fn check(&self, document: &Document) -> Result<(), String> {
        let mut faults = String::new();
        for workflow in items(&self.value["workflows"]) {
            for step in items(&workflow["steps"]) {
                let place = format!(
                    "openapi/{FILE}: {}/{}",
                    text(workflow, "workflowId"),
                    text(step, "stepId")
                );
                for fault in faults_of_step(document, step) {
                    // Writing to a string cannot fail.
                    let _ = writeln!(faults, "{place}: {fault}");
                }
            }
        }
        match faults.is_empty() {
            true => Ok(()),
            false => Err(faults),
        }
    }

    /// Returns the workflows as a part of a guide.
    #[must_use]
    pub fn guide(&self) -> String {
        let mut guide = String::new();
        for workflow in items(&self.value["workflows"]) {
            let (summary, description) = (text(workflow, "summary"), text(workflow, "description"));
            let _ = writeln!(guide, "\n## {summary}\n\n{description}\n");
            for step in items(&workflow["steps"]) {
                let _ = writeln!(
                    guide,
                    "- `{}`: {}",
                    text(step, "operationId"),
                    text(step, "description")
                );
            }
        }
        guide
    }
}

fn faults_of_step(document: &Document, step: &Value) -> Vec<String> {
    let id = text(step, "operationId");
    let Some((item, operation)) = find(document, id) else {
        return vec![format!("unknown operation `{id}`")];
    };
    let mut faults = Vec::new();
    let parameters: Vec<&Value> = items(&item["parameters"])
        .chain(items(&operation["parameters"]))
        .map(|parameter| document.deref(parameter))
        .collect();
    let key = |parameter: &Value| {
        (
            text(parameter, "name").to_owned(),
            text(parameter, "in").to_owned(),
        )
    };
    let sent: BTreeSet<_> = items(&step["parameters"]).map(key).collect();
    let known: BTreeSet<_> = parameters.iter().map(|parameter| key(parameter)).collect();
    let required = parameters
        .iter()
        .filter(|parameter| parameter["required"] == true);
    for (name, _) in sent.difference(&known) {
        faults.push(format!("`{id}` has no parameter `{name}`"));
    }
    for (name, _) in required
        .map(|parameter| key(parameter))
        .filter(|key| !sent.contains(key))
    {
        faults.push(format!("the required parameter `{name}` of `{id}` is missing"));
    }
    let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
    let schema = document.deref(schema);
    let payload = &step["requestBody"]["payload"];
    for (name, _) in entries(payload) {
        if schema["properties"][name].is_null() {
            faults.push(format!("`{id}` has no attribute `{name}`"));
        }
    }
    for name in items(&schema["required"]).filter_map(Value::as_str) {
        if payload[name].is_null() {
            faults.push(format!("the required attribute `{name}` of `{id}` is missing"));
        }
    }
    faults
}

/// Returns the path item and the operation with an ID.
fn find<'a>(document: &'a Document, id: &str) -> Option<(&'a Value, &'a Value)> {
    let paths = entries(&document.root["paths"]);
    let mut operations = paths.flat_map(|(_, item)| METHODS.iter().map(move |method| (item, &item[*method])));
    operations.find(|(_, operation)| operation["operationId"] == id)
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}
