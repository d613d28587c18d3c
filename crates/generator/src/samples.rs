//! The values of the samples in the documentation, and the data that they are valid for (`openapi/samples.yaml`).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use crate::load::{self, Document, entries, items};
use crate::lower::METHODS;

/// Name of the file, relative to the folder of the contract.
const FILE: &str = "samples.yaml";

/// The samples of a contract.
pub struct Samples {
    value: Value,
}

/// Reads the samples of a contract; none without the file.
///
/// # Errors
/// A file that cannot be read or parsed.
pub fn load(folder: &Path) -> Result<Option<Samples>, String> {
    let file = load::optional_file(folder, FILE)?;
    Ok(file.map(|(_, value)| Samples { value }))
}

impl Samples {
    /// Checks that all values are parameters and attributes of the document.
    ///
    /// # Errors
    /// All faults, one on each line.
    pub fn check(&self, document: &Document) -> Result<(), String> {
        let mut known = BTreeSet::new();
        let mut bodies = BTreeMap::new();
        let mut faults = String::new();
        for item in entries(&document.root["paths"]).map(|(_, item)| item) {
            for operation in METHODS.iter().filter_map(|method| item.get(*method)) {
                let id = operation["operationId"].as_str().unwrap_or_default();
                bodies.insert(id, &operation["requestBody"]["content"]);
                let parameters = [&item["parameters"], &operation["parameters"]];
                let parameters = parameters.into_iter().flat_map(items);
                for name in parameters.filter_map(|one| document.deref(one)["name"].as_str()) {
                    known.insert((id, name));
                }
            }
        }
        for (name, _) in entries(&self.value["values"]) {
            if !known.iter().any(|(_, known)| *known == name) {
                faults.push_str(&format!(
                    "openapi/{FILE}: no operation has the parameter `{name}`\n"
                ));
            }
        }
        for (id, values) in entries(&self.value["operations"]) {
            for (name, _) in entries(values) {
                if !known.contains(&(id, name)) {
                    faults.push_str(&format!("openapi/{FILE}: `{id}` has no parameter `{name}`\n"));
                }
            }
        }
        for (id, body) in entries(&self.value["bodies"]) {
            let contents = bodies.get(id).copied().into_iter().flat_map(entries);
            let schemas: Vec<_> = contents
                .map(|(_, content)| document.deref(&content["schema"]))
                .collect();
            if schemas.is_empty() {
                faults.push_str(&format!("openapi/{FILE}: `{id}` has no body\n"));
                continue;
            }
            for (name, _) in entries(body) {
                if schemas
                    .iter()
                    .all(|schema| schema["properties"].get(name).is_none())
                {
                    faults.push_str(&format!("openapi/{FILE}: `{id}` has no attribute `{name}`\n"));
                }
            }
        }
        for (id, _) in entries(&self.value["commands"]) {
            if !bodies.contains_key(id) {
                faults.push_str(&format!("openapi/{FILE}: unknown operation `{id}`\n"));
            }
        }
        let used = [&self.value["operations"], &self.value["bodies"]];
        for name in used.into_iter().flat_map(|part| variables(&part.to_string())) {
            if self.variable(&name).is_none() {
                faults.push_str(&format!(
                    "openapi/{FILE}: `variables` does not describe the variable `{name}`\n"
                ));
            }
        }
        match faults.is_empty() {
            true => Ok(()),
            false => Err(faults),
        }
    }

    /// Returns the description of a variable of headers and bodies.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.value["variables"][name].as_str()
    }

    /// Returns the value of a parameter in the sample of an operation, if it differs from the example of the parameter.
    #[must_use]
    pub fn value(&self, operation: &str, parameter: &str) -> Option<String> {
        let own = self.value["operations"][operation].get(parameter);
        let value = own.or_else(|| self.value["values"].get(parameter))?;
        Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    }

    /// Returns whether the sample of an operation has a value of its own for a parameter.
    #[must_use]
    pub fn has_own_value(&self, operation: &str, parameter: &str) -> bool {
        self.value["operations"][operation].get(parameter).is_some()
    }

    /// Returns the JSON body in the sample of an operation: the example with other values of some attributes.
    #[must_use]
    pub fn json<'a>(&self, operation: &str, example: &'a Value) -> Cow<'a, Value> {
        let mut json = Cow::Borrowed(example);
        for (name, value) in entries(&self.value["bodies"][operation]) {
            json.to_mut()[name] = value.clone();
        }
        json
    }

    /// Returns the value of an attribute of a form, or the name of a file, in the sample of an operation.
    #[must_use]
    pub fn part(&self, operation: &str, name: &str) -> Option<&str> {
        self.value["bodies"][operation][name].as_str()
    }

    /// Returns the name of the file that is the body in the sample of an operation.
    #[must_use]
    pub fn file(&self, operation: &str) -> Option<&str> {
        self.value["bodies"][operation].as_str()
    }

    /// Returns the commands that precede the request in the sample of an operation for curl.
    #[must_use]
    pub fn commands(&self, operation: &str) -> Option<&str> {
        self.value["commands"][operation].as_str()
    }

    /// Returns the requests that create the data of the samples, as JSON.
    #[must_use]
    pub fn world(&self) -> String {
        self.value["world"].to_string()
    }
}

/// Returns the names in the texts `"${NAME}"` of JSON.
#[must_use]
pub fn variables(json: &str) -> BTreeSet<String> {
    let parts = json.split("\"${").skip(1);
    let names = parts.filter_map(|part| part.split_once("}\""));
    names.map(|(name, _)| name.to_owned()).collect()
}
