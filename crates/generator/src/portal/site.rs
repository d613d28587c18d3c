//! Index of the document that the pages are made from.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use heck::ToKebabCase;
use serde_json::{Value, json};

use crate::lint::collect;
pub(super) use crate::load::{entries, items};
use crate::lower::METHODS;
use crate::samples::Samples;

/// Base path of the portal.
pub(super) const BASE: &str = "/docs";

/// The document and its parts by name.
pub(super) struct Site<'a> {
    /// The document.
    pub(super) root: &'a Value,
    /// The values of the samples.
    pub(super) samples: Option<&'a Samples>,
    /// The operations in the order of the document.
    pub(super) operations: Vec<Operation<'a>>,
    /// Groups of tags: the name, and the names of the tags.
    pub(super) groups: Vec<(&'a str, Vec<&'a str>)>,
    /// The version of the API.
    pub(super) version: &'a str,
    /// Descriptions of tags by name.
    pub(super) tags: BTreeMap<&'a str, &'a str>,
    positions: HashMap<&'a str, usize>,
    users: BTreeMap<&'a str, Users<'a>>,
}

/// Operations and schemas that refer to a schema.
#[derive(Default)]
pub(super) struct Users<'a> {
    /// Operation IDs in the order of the document.
    pub(super) operations: Vec<&'a str>,
    /// Names of schemas.
    pub(super) schemas: Vec<&'a str>,
}

/// An operation.
pub(super) struct Operation<'a> {
    /// The operation ID.
    pub(super) id: &'a str,
    /// The method, in lower case.
    pub(super) method: &'a str,
    /// The path template.
    pub(super) path: &'a str,
    /// The tag.
    pub(super) tag: &'a str,
    /// The summary.
    pub(super) summary: &'a str,
    /// The operation itself.
    pub(super) value: &'a Value,
    /// The parameters of the path and of the operation, without references.
    pub(super) parameters: Vec<&'a Value>,
}

impl Operation<'_> {
    /// Returns a string of `x-access`.
    pub(super) fn access(&self, field: &str) -> &str {
        self.value["x-access"][field].as_str().unwrap_or_default()
    }

    /// Returns whether a field of `x-access` is true.
    pub(super) fn has_access(&self, field: &str) -> bool {
        self.value["x-access"][field] == true
    }

    /// Returns whether the operation ignores all credentials.
    pub(super) fn ignores_credentials(&self) -> bool {
        self.value["security"] == json!([{}])
    }

    /// Returns whether the operation is deprecated.
    pub(super) fn is_deprecated(&self) -> bool {
        self.value["deprecated"] == true
    }

    /// Returns the address of the page.
    pub(super) fn target(&self) -> String {
        operation_target(self.id)
    }
}

/// Returns the address of the page of an operation.
pub(super) fn operation_target(id: &str) -> String {
    format!("{BASE}/operation/{id}")
}

/// Returns the address of the page of a schema.
pub(super) fn schema_target(name: &str) -> String {
    format!("{BASE}/schema/{name}")
}

/// Returns the address of the page of a tag.
pub(super) fn tag_target(name: &str) -> String {
    format!("{BASE}/tag/{}", name.to_kebab_case())
}

/// Returns the name of the referenced component.
pub(super) fn reference(value: &Value) -> Option<&str> {
    value["$ref"].as_str()?.rsplit('/').next()
}

impl<'a> Site<'a> {
    /// Returns the index of a document that passed the lints.
    pub(super) fn new(root: &'a Value) -> Self {
        let mut site = Self {
            root,
            samples: None,
            operations: Vec::new(),
            groups: Vec::new(),
            version: root["info"]["version"].as_str().unwrap_or_default(),
            tags: BTreeMap::new(),
            positions: HashMap::new(),
            users: BTreeMap::new(),
        };
        for (path, item) in entries(&root["paths"]) {
            for method in METHODS {
                if let Some(value) = item.get(method) {
                    site.add(path, method, item, value);
                }
            }
        }
        for tag in items(&root["tags"]) {
            let description = tag["description"].as_str().unwrap_or_default();
            site.tags
                .insert(tag["name"].as_str().unwrap_or_default(), description);
        }
        site.add_groups();
        site.add_users();
        site
    }

    fn add(&mut self, path: &'a str, method: &'a str, item: &'a Value, value: &'a Value) {
        let parameters = [&item["parameters"], &value["parameters"]];
        let parameters = parameters.into_iter().flat_map(items);
        let operation = Operation {
            id: value["operationId"].as_str().unwrap_or_default(),
            method,
            path,
            tag: value["tags"][0].as_str().unwrap_or_default(),
            summary: value["summary"].as_str().unwrap_or_default(),
            value,
            parameters: parameters.map(|parameter| self.deref(parameter)).collect(),
        };
        self.positions.insert(operation.id, self.operations.len());
        self.operations.push(operation);
    }

    /// Adds the groups of tags. A document without groups has one.
    fn add_groups(&mut self) {
        let named = items(&self.root["x-tagGroups"]).map(|group| {
            let tags = items(&group["tags"]).filter_map(Value::as_str).collect();
            (group["name"].as_str().unwrap_or_default(), tags)
        });
        self.groups = named.collect();
        if self.groups.is_empty() {
            self.groups
                .push(("Operations", self.tags.keys().copied().collect()));
        }
    }

    fn add_users(&mut self) {
        for operation in &self.operations {
            let mut used = BTreeSet::new();
            collect(operation.value, &mut used);
            for parameter in &operation.parameters {
                collect(parameter, &mut used);
            }
            for name in used.iter().filter_map(|target| target.strip_prefix(SCHEMAS)) {
                if let Some((name, _)) = self.root["components"]["schemas"]
                    .as_object()
                    .and_then(|all| all.get_key_value(name))
                {
                    self.users.entry(name).or_default().operations.push(operation.id);
                }
            }
        }
        for (user, schema) in entries(&self.root["components"]["schemas"]) {
            let mut used = BTreeSet::new();
            collect(schema, &mut used);
            for name in used.iter().filter_map(|target| target.strip_prefix(SCHEMAS)) {
                if let Some((name, _)) = self.root["components"]["schemas"]
                    .as_object()
                    .and_then(|all| all.get_key_value(name))
                {
                    self.users.entry(name).or_default().schemas.push(user);
                }
            }
        }
    }

    /// Returns the operation with an ID.
    pub(super) fn operation(&self, id: &str) -> Option<&Operation<'a>> {
        self.positions.get(id).and_then(|at| self.operations.get(*at))
    }

    /// Returns the operations of a tag.
    pub(super) fn operations_of(&self, tag: &str) -> impl Iterator<Item = &Operation<'a>> {
        self.operations
            .iter()
            .filter(move |operation| operation.tag == tag)
    }

    /// Returns the group of a tag.
    pub(super) fn group_of(&self, tag: &str) -> Option<&'a str> {
        let found = self.groups.iter().find(|(_, tags)| tags.contains(&tag));
        found.map(|(name, _)| *name)
    }

    /// Returns the schema with a name.
    pub(super) fn schema(&self, name: &str) -> Option<&'a Value> {
        self.root["components"]["schemas"].get(name)
    }

    /// Returns all schemas by name.
    pub(super) fn schemas(&self) -> impl Iterator<Item = (&'a str, &'a Value)> + use<'a> {
        entries(&self.root["components"]["schemas"])
    }

    /// Returns the operations and schemas that refer to a schema.
    pub(super) fn users_of(&self, schema: &str) -> Option<&Users<'a>> {
        self.users.get(schema)
    }

    /// Returns a value, or its target if the value is a reference.
    pub(super) fn deref<'b>(&self, value: &'b Value) -> &'b Value
    where
        'a: 'b,
    {
        let target = value["$ref"]
            .as_str()
            .and_then(|target| self.root.pointer(target.strip_prefix('#')?));
        target.unwrap_or(value)
    }
}

/// Prefix of references to schemas.
const SCHEMAS: &str = "#/components/schemas/";
