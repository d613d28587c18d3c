//! The values of the samples in the documentation, and the data that they are valid for (`openapi/samples.yaml`).

use std::collections::BTreeSet;
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
    /// Checks that all values are parameters of the document.
    ///
    /// # Errors
    /// All faults, one on each line.
    pub fn check(&self, document: &Document) -> Result<(), String> {
        let mut known = BTreeSet::new();
        let mut faults = String::new();
        for item in entries(&document.root["paths"]).map(|(_, item)| item) {
            for operation in METHODS.iter().filter_map(|method| item.get(*method)) {
                let id = operation["operationId"].as_str().unwrap_or_default();
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
        match faults.is_empty() {
            true => Ok(()),
            false => Err(faults),
        }
    }

    /// Returns the value of a parameter in the sample of an operation, if it differs from the example of the parameter.
    #[must_use]
    pub fn value(&self, operation: &str, parameter: &str) -> Option<String> {
        let own = self.value["operations"][operation].get(parameter);
        let value = own.or_else(|| self.value["values"].get(parameter))?;
        Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    }

    /// Returns the requests that create the data of the samples, as JSON.
    #[must_use]
    pub fn world(&self) -> String {
        self.value["world"].to_string()
    }
}
