//! Lints of the contract. Each fault has a file and a pointer. The lints of extension fields are in
//! [`extensions`], those of parts that client generators need are in [`clients`], and the lint of the wording is in
//! [`wording`].

mod clients;
mod extensions;
pub mod wording;

use std::collections::{BTreeMap, BTreeSet};

use heck::ToSnakeCase;
use serde_json::Value;

use crate::example;
use crate::known_keys;
use crate::load::{Document, Fault, escape};
use crate::lower::{BYTES, METHODS, is_file, json_of};

const MINIMA: [&str; 7] = [
    "none",
    "guest",
    "reporter",
    "developer",
    "maintainer",
    "owner",
    "admin",
];
const ALWAYS: [&str; 5] = ["400", "429", "500", "503", "507"];
const PAGING_HEADERS: [&str; 7] = [
    "X-Total",
    "X-Total-Pages",
    "X-Per-Page",
    "X-Page",
    "X-Next-Page",
    "X-Prev-Page",
    "Link",
];

/// Returns all faults of the document.
pub fn lint(document: &Document) -> Vec<Fault> {
    let mut linter = Linter {
        document,
        faults: Vec::new(),
        ids: BTreeMap::new(),
    };
    linter.faults.extend(known_keys::unknown(document));
    linter.references("", &document.root);
    // The following lints resolve references, so those must be valid.
    if linter.faults.is_empty() {
        linter.paths();
        linter.webhooks();
        linter.components();
        linter.error_examples();
        linter.unused();
        linter.tag_groups();
        linter.wording("", &document.root);
    }
    linter.faults
}

struct Linter<'a> {
    document: &'a Document,
    faults: Vec<Fault>,
    ids: BTreeMap<String, String>,
}

impl Linter<'_> {
    fn fault(&mut self, pointer: &str, rule: &'static str, message: impl Into<String>) {
        self.faults.push(self.document.fault(pointer, rule, message));
    }

    fn require(&mut self, holds: bool, pointer: &str, rule: &'static str, message: impl Into<String>) {
        if !holds {
            self.fault(pointer, rule, message);
        }
    }

    /// Checks that references are local, have no siblings, and resolve.
    fn references(&mut self, pointer: &str, value: &Value) {
        match value {
            Value::Object(entries) => {
                if let Some(reference) = entries.get("$ref").and_then(Value::as_str) {
                    let resolved =
                        reference.starts_with("#/components/") && self.document.resolve(reference).is_some();
                    self.require(
                        resolved,
                        pointer,
                        "ref",
                        format!("`{reference}` does not resolve in the bundle"),
                    );
                    self.require(
                        entries.len() == 1,
                        pointer,
                        "ref-sibling",
                        "a $ref must have no siblings; wrap it in allOf",
                    );
                }
                for (name, entry) in entries.iter().filter(|(name, _)| *name != "example") {
                    self.references(&format!("{pointer}/{}", escape(name)), entry);
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.references(&format!("{pointer}/{index}"), item);
                }
            }
            _ => {}
        }
    }

    fn paths(&mut self) {
        let paths = self.document.root["paths"]
            .as_object()
            .cloned()
            .unwrap_or_default();
        for (path, item) in &paths {
            for method in METHODS {
                if let Some(operation) = item.get(method) {
                    let pointer = format!("/paths/{}/{method}", escape(path));
                    self.identity(&pointer, operation);
                    self.access(&pointer, path, operation);
                    self.parameters(&pointer, path, item, operation);
                    self.body(&pointer, method, operation);
                    self.optional_parameter(&pointer, operation);
                    self.responses(&pointer, operation);
                    self.extensions(&pointer, operation);
                    self.created(&pointer, path, operation);
                }
            }
        }
    }

    /// Checks operationId, tag, summary and description.
    fn identity(&mut self, pointer: &str, operation: &Value) {
        let id = operation["operationId"].as_str().unwrap_or_default();
        let snake = !id.is_empty() && id == id.to_snake_case() && id.contains('_');
        self.require(
            snake,
            pointer,
            "operation-id",
            "operationId must be snake_case verb_noun",
        );
        if let Some(other) = self.ids.insert(id.to_owned(), pointer.to_owned()) {
            self.fault(
                pointer,
                "operation-id-unique",
                format!("`{id}` is also the operationId of {other}"),
            );
        }
        let tags = operation["tags"].as_array().cloned().unwrap_or_default();
        let tag = tags.first().and_then(Value::as_str).unwrap_or_default();
        self.require(
            tags.len() == 1,
            pointer,
            "one-tag",
            "an operation must have exactly one tag",
        );
        let declared = self.document.root["tags"]
            .as_array()
            .is_some_and(|known| known.iter().any(|t| t["name"] == tag));
        self.require(
            declared,
            pointer,
            "tag-declared",
            format!("the tag `{tag}` is not declared in openapi.yaml"),
        );
        let file = format!("paths/{}.yaml", tag.to_snake_case());
        let here = self.document.file_of(pointer);
        self.require(
            file == here,
            pointer,
            "tag-file",
            format!("operations of `{tag}` must be in {file}"),
        );
        let summary = operation["summary"].as_str().unwrap_or_default();
        let good = !summary.is_empty() && summary.chars().count() <= 60 && !summary.ends_with('.');
        self.require(
            good,
            pointer,
            "summary",
            "a summary must have at most 60 characters and no full stop",
        );
        self.description(pointer, operation);
    }

    fn description(&mut self, pointer: &str, value: &Value) {
        let text = value["description"].as_str().unwrap_or_default().trim();
        self.require(
            !text.is_empty(),
            pointer,
            "description",
            "a description is missing",
        );
    }

    fn access(&mut self, pointer: &str, path: &str, operation: &Value) {
        let access = &operation["x-access"];
        let on = access["on"].as_str().unwrap_or_default();
        let min = access["min"].as_str().unwrap_or_default();
        let known = matches!(on, "instance" | "user" | "group" | "project" | "scim") && MINIMA.contains(&min);
        self.require(
            known,
            pointer,
            "access",
            "x-access requires `on` and `min` with values of EXTENSIONS.md",
        );
        let keys = access
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, _)| key.as_str());
        for key in keys.filter(|key| !matches!(*key, "on" | "min" | "anonymous" | "archived" | "first")) {
            self.fault(pointer, "access", format!("x-access has no field `{key}`"));
        }
        let has_key = match on {
            "instance" => true,
            "scim" => path.contains("{group_path}"),
            "user" => path.contains("{id}") || path.contains("{user_id}"),
            _ => path.contains("{id}"),
        };
        self.require(
            has_key,
            pointer,
            "access-key",
            "x-access.on requires the path parameter `id`, or `group_path` for scim",
        );
        let responses = &operation["responses"];
        let anonymous = access["anonymous"] == Value::Bool(true);
        self.require(
            !responses["401"].is_null(),
            pointer,
            "status-401",
            "every operation can reject credentials: document 401",
        );
        let hidden = on == "instance" || (!responses["404"].is_null() && !responses["403"].is_null());
        self.require(
            hidden,
            pointer,
            "status-404",
            "the resource can be hidden or forbidden: document 404 and 403",
        );
        let empty = |list: &Value| {
            list.as_array()
                .is_some_and(|all| all.iter().any(|one| one == &serde_json::json!({})))
        };
        let open = empty(&operation["security"]);
        self.require(
            open == anonymous,
            pointer,
            "access-security",
            "x-access.anonymous and the empty security requirement must be used together",
        );
    }

    fn parameters(&mut self, pointer: &str, path: &str, item: &Value, operation: &Value) {
        let lists = [&item["parameters"], &operation["parameters"]];
        let all: Vec<&Value> = lists
            .iter()
            .filter_map(|list| list.as_array())
            .flatten()
            .collect();
        let mut declared = BTreeSet::new();
        for parameter in all {
            let parameter = self.document.deref(parameter);
            let name = parameter["name"].as_str().unwrap_or_default();
            let at = format!("{pointer}/parameters/{}", escape(name));
            self.description(&at, parameter);
            self.require(
                parameter["explode"] != Value::Bool(false),
                &at,
                "explode",
                "`explode: false` is not supported",
            );
            let is_array = self.document.deref(&parameter["schema"])["type"] == "array";
            self.require(
                is_array == name.ends_with("[]"),
                &at,
                "array-name",
                "array parameters, and only those, must be named `x[]`",
            );
            let is_last = parameter["in"] == "path" && path.ends_with(&format!("/{{{name}}}"));
            self.require(
                parameter["x-rest"].is_null() || (parameter["x-rest"] == Value::Bool(true) && is_last),
                &at,
                "rest",
                "x-rest must be `true` or absent; only the last parameter of a path can match the rest of the path",
            );
            self.require(
                parameter["x-passed"].is_null()
                    || (parameter["x-passed"] == Value::Bool(true)
                        && parameter["in"] == "path"
                        && name == "id"),
                &at,
                "passed",
                "x-passed must be `true` or absent; only the path parameter `id` can be passed",
            );
            if parameter["in"] == "path" {
                declared.insert(name.to_owned());
                self.path_example(&at, parameter);
            }
            self.schema(&format!("{at}/schema"), &parameter["schema"]);
        }
        let placeholders: BTreeSet<String> = path
            .split('{')
            .skip(1)
            .filter_map(|rest| rest.split_once('}'))
            .map(|(name, _)| name.to_owned())
            .collect();
        self.require(
            placeholders == declared,
            pointer,
            "path-parameters",
            "path placeholders and path parameters differ",
        );
    }

    fn body(&mut self, pointer: &str, method: &str, operation: &Value) {
        let Some(content) = operation
            .pointer("/requestBody/content")
            .and_then(Value::as_object)
        else {
            return;
        };
        let at = format!("{pointer}/requestBody");
        self.require(method != "get", &at, "body-on-get", "GET cannot have a body");
        let known = |media: &String| {
            matches!(
                media.as_str(),
                "application/json" | "application/scim+json" | "multipart/form-data" | BYTES
            )
        };
        self.require(
            !content.is_empty() && content.keys().all(known),
            &at,
            "body-media",
            "a body must be application/json, or multipart/form-data if it contains a file",
        );
        let forms = content.len() == 2 && content.contains_key("multipart/form-data");
        self.require(
            !content.contains_key(BYTES) || forms,
            &at,
            "body-bytes",
            "a body of application/octet-stream requires a form with the same file as the only other media type",
        );
        for (name, media) in content {
            self.require(
                match name == BYTES {
                    true => is_file(&media["schema"]),
                    false => media["schema"].get("$ref").is_some(),
                },
                &at,
                "body-named",
                "a body must be a named component",
            );
        }
        self.require(
            !operation["responses"]["413"].is_null(),
            &at,
            "status-413",
            "a body can be too large: document 413",
        );
        if let Some(form) = content.get("multipart/form-data") {
            self.form(&at, &form["schema"], content.len() == 1);
        }
        if let Some((_, media)) = json_of(&operation["requestBody"]["content"]) {
            self.example(&at, media);
        }
    }

    /// Checks a form with a file: it has one file, and all other attributes are in the JSON variant if there
    /// is one.
    fn form(&mut self, pointer: &str, schema: &Value, alone: bool) {
        let properties = self.document.deref(schema)["properties"].as_object();
        let properties: Vec<bool> = properties
            .into_iter()
            .flatten()
            .map(|(_, one)| is_file(one))
            .collect();
        let files = properties.iter().filter(|file| **file).count();
        self.require(
            files == 1,
            pointer,
            "form-file",
            "a multipart form must have exactly one property of format binary",
        );
        self.require(
            alone || properties.len() == 1,
            pointer,
            "form-attributes",
            "next to application/json, a form may contain only the file; its other attributes are those of the JSON",
        );
    }

    fn example(&mut self, pointer: &str, media: &Value) {
        let Some(example) = media.get("example") else {
            self.fault(pointer, "example", "an example is missing");
            return;
        };
        for fault in example::check(self.document, &media["schema"], example) {
            self.fault(pointer, "example-valid", format!("example: {fault}"));
        }
    }

    fn responses(&mut self, pointer: &str, operation: &Value) {
        let responses = operation["responses"].as_object().cloned().unwrap_or_default();
        for status in ALWAYS {
            self.require(
                responses.contains_key(status),
                pointer,
                "status-always",
                format!("every operation must document {status}"),
            );
        }
        let mut successes = 0;
        for (status, response) in &responses {
            let at = format!("{pointer}/responses/{status}");
            if status.starts_with('4') || status.starts_with('5') {
                self.require(
                    response.get("$ref").is_some(),
                    &at,
                    "error-component",
                    "errors must be components of responses/",
                );
                continue;
            }
            successes += usize::from(status.starts_with('2') && status != "206");
            let response = self.document.deref(response);
            for (name, header) in response["headers"].as_object().into_iter().flatten() {
                self.description(&format!("{at}/headers/{name}"), self.document.deref(header));
            }
            for (media, body) in response["content"].as_object().into_iter().flatten() {
                self.require(
                    !media.contains(';'),
                    &at,
                    "media-bare",
                    "media types must not have parameters",
                );
                if json_of(&response["content"]).is_some_and(|(name, _)| name == media) {
                    self.schema(&format!("{at}/schema"), &body["schema"]);
                    self.example(&at, body);
                }
            }
            if status.starts_with('2') {
                self.paging(&at, operation, response);
            }
        }
        let optional = responses.contains_key("200") && responses.contains_key("204");
        let redirect = responses.get("302").map(|response| self.document.deref(response));
        let is_redirect = redirect.is_some_and(|response| !response["headers"]["Location"].is_null());
        self.require(
            redirect.is_some() == is_redirect,
            pointer,
            "redirect",
            "a redirect must document the header `Location`",
        );
        self.require(
            match is_redirect {
                true => successes == 0,
                false => successes == 1 || (successes == 2 && optional),
            },
            pointer,
            "one-success",
            "an operation must document exactly one 2xx besides 206, or 200 and 204, or only 302",
        );
    }

    fn paging(&mut self, pointer: &str, operation: &Value, response: &Value) {
        let schema = response.pointer("/content/application~1json/schema");
        let is_list = schema.is_some_and(|schema| self.document.deref(schema)["type"] == "array");
        let paged = operation.get("x-page").is_some();
        self.require(
            !paged || is_list,
            pointer,
            "page-list",
            "x-page is allowed only for lists",
        );
        if paged {
            for name in PAGING_HEADERS {
                let known = !response["headers"][name].is_null();
                self.require(
                    known,
                    pointer,
                    "page-headers",
                    format!("a paged list must document {name}"),
                );
            }
        }
    }

    fn components(&mut self) {
        let schemas = self.document.root["components"]["schemas"]
            .as_object()
            .cloned()
            .unwrap_or_default();
        for (name, schema) in &schemas {
            let pointer = format!("/components/schemas/{}", escape(name));
            self.description(&pointer, schema);
            self.composition(&pointer, schema);
            self.client_schema(&pointer, schema);
            for (property, value) in schema["properties"].as_object().into_iter().flatten() {
                let at = format!("{pointer}/properties/{}", escape(property));
                let wrapped = value.get("$ref").is_some();
                self.require(
                    wrapped || value["description"].is_string(),
                    &at,
                    "description",
                    "a description is missing",
                );
                self.schema(&at, value);
            }
            let required = schema["required"].as_array().cloned().unwrap_or_default();
            for property in required.iter().filter_map(Value::as_str) {
                let known = !schema["properties"][property].is_null();
                self.require(
                    known,
                    &pointer,
                    "required-known",
                    format!("`{property}` is required but not a property"),
                );
            }
        }
    }

    fn composition(&mut self, pointer: &str, schema: &Value) {
        for word in ["oneOf", "anyOf", "not", "discriminator"] {
            self.require(
                schema.get(word).is_none(),
                pointer,
                "composition",
                format!("`{word}` breaks client generators"),
            );
        }
    }

    /// Checks a schema used as a type: objects and enums must be named components.
    fn schema(&mut self, pointer: &str, schema: &Value) {
        if schema.get("$ref").is_some() {
            return;
        }
        self.composition(pointer, schema);
        self.client_schema(pointer, schema);
        let anonymous = schema.get("properties").is_some() || schema.get("enum").is_some();
        self.require(
            !anonymous,
            pointer,
            "named",
            "objects and enums must be named components",
        );
        if schema["type"] == "array" {
            self.schema(&format!("{pointer}/items"), &schema["items"]);
        }
        if schema["type"] == "integer" {
            self.require(
                schema["format"] == "int64",
                pointer,
                "int64",
                "integers must have format int64",
            );
        }
    }

    /// Checks that all components are used.
    fn unused(&mut self) {
        let mut used = BTreeSet::new();
        collect(&self.document.root, &mut used);
        let sections = self.document.root["components"]
            .as_object()
            .cloned()
            .unwrap_or_default();
        for (section, entries) in sections
            .iter()
            .filter(|(section, _)| *section != "securitySchemes")
        {
            for name in entries.as_object().into_iter().flatten().map(|(name, _)| name) {
                let pointer = format!("/components/{section}/{}", escape(name));
                let known = used.contains(&format!("#{pointer}"));
                self.require(known, &pointer, "unused", "the component is unused");
            }
        }
    }
}

/// Adds the targets of all references below a value.
pub(crate) fn collect(value: &Value, used: &mut BTreeSet<String>) {
    match value {
        Value::Object(entries) => {
            if let Some(reference) = entries.get("$ref").and_then(Value::as_str) {
                used.insert(reference.to_owned());
            }
            entries.values().for_each(|entry| collect(entry, used));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, used)),
        _ => {}
    }
}
