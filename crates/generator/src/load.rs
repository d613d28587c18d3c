//! Loads all files below `openapi/` and merges them into one document.
//!
//! All references are local to the merged document (`#/components/...`), so bundling is a merge and needs no
//! resolver.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::defaults;
use crate::groups::{self, Groups};
use crate::shared_examples;

/// A fault of the contract and its location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The file, relative to `openapi/`.
    pub file: String,
    /// A JSON pointer into the bundled document.
    pub pointer: String,
    /// Short name of the violated rule.
    pub rule: &'static str,
    /// The fault, and how to fix it.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "openapi/{} {} [{}] {}",
            self.file, self.pointer, self.rule, self.message
        )
    }
}

/// Formats faults, one on each line.
pub fn report(faults: &[Fault]) -> String {
    faults.iter().map(|fault| format!("error: {fault}\n")).collect()
}

/// Reads a file that is not part of the document. Returns its text and its content, or `None` if it does not exist.
///
/// # Errors
/// A file that cannot be read or parsed.
pub fn optional_file(folder: &Path, name: &str) -> Result<Option<(String, Value)>, String> {
    let path = folder.join(name);
    if !path.exists() {
        return Ok(None);
    }
    let failed = |error: String| format!("openapi/{name}: {error}\n");
    let text = std::fs::read_to_string(&path).map_err(|error| failed(error.to_string()))?;
    let value = yaml_serde::from_str(&text).map_err(|error| failed(error.to_string()))?;
    Ok(Some((text, value)))
}

/// Returns the entries of an object.
pub fn entries(value: &Value) -> impl Iterator<Item = (&str, &Value)> + use<'_> {
    let entries = value.as_object().into_iter().flat_map(Map::iter);
    entries.map(|(name, entry)| (name.as_str(), entry))
}

/// Returns the items of a list.
pub fn items(value: &Value) -> impl Iterator<Item = &Value> + use<'_> {
    value.as_array().into_iter().flatten()
}

/// The bundled document, and the source file of each part.
pub struct Document {
    /// The OpenAPI document.
    pub root: Value,
    /// Path or webhook -> file.
    pub path_files: BTreeMap<String, String>,
    /// `section/name` of a component -> file.
    pub component_files: BTreeMap<String, String>,
    /// The groups, which are expanded in the document.
    pub groups: Groups,
}

impl Document {
    /// Returns the target of a local reference.
    pub fn resolve<'a>(&'a self, reference: &str) -> Option<&'a Value> {
        self.root.pointer(reference.strip_prefix('#')?)
    }

    /// Returns `value`, or its target if it is a reference.
    pub fn deref<'a>(&'a self, value: &'a Value) -> &'a Value {
        match value.get("$ref").and_then(Value::as_str) {
            Some(reference) => self.resolve(reference).unwrap_or(value),
            None => value,
        }
    }

    /// Returns the source file of the part at a pointer.
    pub fn file_of(&self, pointer: &str) -> String {
        let parts: Vec<String> = pointer.split('/').skip(1).map(unescape).collect();
        match parts.first().map(String::as_str) {
            Some("paths" | WEBHOOKS) => parts.get(1).and_then(|path| self.path_files.get(path)),
            Some("components") if parts.len() > 2 => {
                self.component_files.get(&format!("{}/{}", parts[1], parts[2]))
            }
            _ => None,
        }
        .cloned()
        .unwrap_or_else(|| "openapi.yaml".to_owned())
    }

    /// Returns a fault at a pointer.
    pub fn fault(&self, pointer: &str, rule: &'static str, message: impl Into<String>) -> Fault {
        Fault {
            file: self.file_of(pointer),
            pointer: pointer.to_owned(),
            rule,
            message: message.into(),
        }
    }
}

/// Escapes a segment of a JSON pointer.
pub fn escape(segment: &str) -> String {
    segment.replace('~', "~0").replace('/', "~1")
}

fn unescape(segment: &str) -> String {
    segment.replace("~1", "/").replace("~0", "~")
}

/// Files of `shared/` and the section of `components` that each contains.
const SHARED: [(&str, &str); 5] = [
    ("shared/parameters.yaml", "parameters"),
    ("shared/headers.yaml", "headers"),
    ("shared/responses.yaml", "responses"),
    ("shared/security.yaml", "securitySchemes"),
    ("shared/schemas.yaml", "schemas"),
];

/// Extension with the webhooks, which OpenAPI 3.0 lacks.
pub const WEBHOOKS: &str = "x-webhooks";

/// Extension with the types of a value that has no single type.
pub const TYPES: &str = "x-types";
/// Extension for the values of an object that are created while the response is written.
pub const DEFERRED: &str = "x-deferred";

/// Loads and merges the contract below `folder`, and adds the common parts.
///
/// # Errors
/// All files that cannot be read or parsed, all duplicate names, and all faults of groups.
pub fn load(folder: &Path) -> Result<Document, Vec<Fault>> {
    let mut loader = Loader {
        folder,
        faults: Vec::new(),
    };
    let mut root = loader.mapping("openapi.yaml");
    let (mut paths, mut path_files) = (Map::new(), BTreeMap::new());
    for file in loader.files("paths") {
        for (path, item) in loader.mapping(&file) {
            if paths.insert(path.clone(), item).is_some() {
                loader.fault(
                    &file,
                    &format!("/paths/{}", escape(&path)),
                    "path is defined twice",
                );
            }
            path_files.insert(path, file.clone());
        }
    }
    let (mut sections, mut component_files) = (BTreeMap::<&str, Map<String, Value>>::new(), BTreeMap::new());
    let schema_files = loader.files("schemas").into_iter().map(|file| (file, "schemas"));
    let shared = SHARED
        .iter()
        .map(|(file, section)| ((*file).to_owned(), *section));
    for (file, section) in shared.chain(schema_files).collect::<Vec<_>>() {
        for (name, component) in loader.mapping(&file) {
            let pointer = format!("/components/{section}/{}", escape(&name));
            component_files.insert(format!("{section}/{name}"), file.clone());
            if sections
                .entry(section)
                .or_default()
                .insert(name, component)
                .is_some()
            {
                loader.fault(&file, &pointer, "component is defined twice");
            }
        }
    }
    let webhooks = match folder.join("webhooks").exists() {
        true => loader.webhooks(&mut path_files),
        false => Map::new(),
    };
    let definitions = match folder.join(groups::FILE).exists() {
        true => loader.mapping(groups::FILE),
        false => Map::new(),
    };
    let examples = match folder.join(shared_examples::FILE).exists() {
        true => loader.mapping(shared_examples::FILE),
        false => Map::new(),
    };
    if !loader.faults.is_empty() {
        return Err(loader.faults);
    }
    let components: Map<String, Value> = sections
        .into_iter()
        .map(|(section, entries)| (section.to_owned(), Value::Object(entries)))
        .collect();
    root.insert("paths".to_owned(), Value::Object(paths));
    root.insert("components".to_owned(), json!(components));
    if !webhooks.is_empty() {
        root.insert(WEBHOOKS.to_owned(), Value::Object(webhooks));
    }
    let mut document = Document {
        root: Value::Object(root),
        path_files,
        component_files,
        groups: Groups::default(),
    };
    groups::expand(&mut document, definitions)?;
    shared_examples::expand(&mut document, examples)?;
    defaults::add(&mut document);
    Ok(document)
}

struct Loader<'a> {
    folder: &'a Path,
    faults: Vec<Fault>,
}

impl Loader<'_> {
    fn fault(&mut self, file: &str, pointer: &str, message: impl Into<String>) {
        self.faults.push(Fault {
            file: file.to_owned(),
            pointer: pointer.to_owned(),
            rule: "load",
            message: message.into(),
        });
    }

    /// Returns all webhooks, and adds their files.
    fn webhooks(&mut self, path_files: &mut BTreeMap<String, String>) -> Map<String, Value> {
        let mut webhooks = Map::new();
        for file in self.files("webhooks") {
            for (name, item) in self.mapping(&file) {
                if webhooks.insert(name.clone(), item).is_some() {
                    let pointer = format!("/{WEBHOOKS}/{}", escape(&name));
                    self.fault(&file, &pointer, "webhook is defined twice");
                }
                path_files.insert(name, file.clone());
            }
        }
        webhooks
    }

    /// Returns the YAML files of a folder, sorted, relative to the contract's folder.
    fn files(&mut self, name: &str) -> Vec<String> {
        let entries = match std::fs::read_dir(self.folder.join(name)) {
            Ok(entries) => entries,
            Err(error) => {
                self.fault(name, "", error.to_string());
                return Vec::new();
            }
        };
        let mut files: Vec<String> = entries
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|file| file.ends_with(".yaml"))
            .map(|file| format!("{name}/{file}"))
            .collect();
        files.sort();
        files
    }

    /// Returns the mapping in a file; a missing shared file is empty.
    fn mapping(&mut self, file: &str) -> Map<String, Value> {
        let text = match std::fs::read_to_string(self.folder.join(file)) {
            Ok(text) => text,
            Err(error) => {
                self.fault(file, "", error.to_string());
                return Map::new();
            }
        };
        // Parsed as YAML's own mapping, which rejects duplicate keys.
        let parsed = yaml_serde::from_str::<Option<yaml_serde::Mapping>>(&text);
        let parsed = parsed.and_then(|mapping| yaml_serde::from_value(mapping.unwrap_or_default().into()));
        match parsed {
            Ok(mapping) => mapping,
            Err(error) => {
                self.fault(file, "", error.to_string());
                Map::new()
            }
        }
    }
}
