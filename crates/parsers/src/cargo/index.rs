//! Lines of an index: one JSON object for each version of a crate.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Version of the format of a line whose features use the syntax of `features2`.
const EXTENDED_FORMAT: u32 = 2;

/// A version of a crate, as it is in the index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexEntry {
    /// The name.
    pub name: String,
    /// The version.
    pub vers: String,
    /// The dependencies.
    pub deps: Vec<Dependency>,
    /// The SHA-256 digest of the archive in hexadecimal digits.
    pub cksum: String,
    /// The features.
    pub features: BTreeMap<String, Vec<String>>,
    /// The features whose syntax old versions of Cargo cannot read.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub features2: BTreeMap<String, Vec<String>>,
    /// Whether the version is yanked: new lock files do not select it.
    pub yanked: bool,
    /// The native library to which the crate links.
    pub links: Option<String>,
    /// The minimum version of Rust.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rust_version: Option<String>,
    /// The version of the format; absent for the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub v: Option<u32>,
}

/// A dependency.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dependency {
    /// The name in the manifest.
    pub name: String,
    /// The required versions.
    pub req: String,
    /// The enabled features.
    pub features: Vec<String>,
    /// Whether the dependency is optional.
    pub optional: bool,
    /// Whether the default features are enabled.
    pub default_features: bool,
    /// The platform for which the dependency is required.
    pub target: Option<String>,
    /// The kind.
    pub kind: DependencyKind,
    /// The URL of the index of another registry.
    pub registry: Option<String>,
    /// The name of the crate, if the name in the manifest is another one.
    pub package: Option<String>,
}

/// Kind of a dependency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DependencyKind {
    /// Of the crate.
    Normal,
    /// Of its build script.
    Build,
    /// Of its tests and examples.
    Dev,
}

impl IndexEntry {
    /// Moves the features with a newer syntax to `features2`, as old versions of Cargo cannot read a line with them.
    pub(super) fn separate_features(&mut self) {
        let is_extended = |value: &String| value.starts_with("dep:") || value.contains("?/");
        let (extended, plain) = std::mem::take(&mut self.features)
            .into_iter()
            .partition(|(_, values): &(String, Vec<String>)| values.iter().any(is_extended));
        (self.features2, self.features) = (extended, plain);
        self.v = (!self.features2.is_empty()).then_some(EXTENDED_FORMAT);
    }

    /// Parses a stored line.
    ///
    /// # Errors
    /// Returns an error if the line is invalid.
    pub fn parse(line: &str) -> serde_json::Result<Self> {
        serde_json::from_str(line)
    }

    /// Returns the line, without an end of line.
    ///
    /// # Errors
    /// Returns an error if the entry cannot be serialized.
    pub fn to_line(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }
}
