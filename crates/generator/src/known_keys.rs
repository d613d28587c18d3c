//! OpenAPI keys that the contract may use, part by part. Other keys would have no effect on the code
//! although readers expect one: typing mistakes, or commas in a YAML flow mapping.

use serde_json::Value;

use crate::load::{DEFERRED, Document, Fault, TYPES, WEBHOOKS, escape};
use crate::lower::METHODS;

const OPERATION: &[&str] = &[
    "operationId",
    "tags",
    "summary",
    "description",
    "deprecated",
    "security",
    "parameters",
    "requestBody",
    "responses",
];
const EXTENSIONS: &[&str] = &[
    "x-access",
    "x-scope",
    "x-job-token",
    "x-package-client",
    "x-one-of",
    "x-tier",
    "x-flag",
    "x-page",
    "x-body-limit",
    "x-raw-body",
    "x-attachment",
    "x-errors",
    "x-created",
    "x-deprecation",
    "x-time-dependent",
];
const PARAMETER: &[&str] = &[
    "name",
    "in",
    "description",
    "required",
    "deprecated",
    "schema",
    "style",
    "explode",
    "example",
    "x-passed",
    "x-rest",
];
const BODY: &[&str] = &["description", "required", "content"];
const MEDIA: &[&str] = &["schema", "example"];
const RESPONSE: &[&str] = &["description", "headers", "content"];
const HEADER: &[&str] = &["description", "required", "schema", "example"];
const SCHEMA: &[&str] = &[
    "type",
    "format",
    "description",
    "nullable",
    "deprecated",
    "enum",
    "default",
    "example",
    "allOf",
    "items",
    "properties",
    "required",
    "additionalProperties",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "externalDocs",
    TYPES,
    DEFERRED,
    "x-enum-varnames",
    // Other lints decide whether these are allowed.
    "oneOf",
    "anyOf",
    "not",
    "discriminator",
];

/// Returns a fault for every key that the generator does not read.
pub fn unknown(document: &Document) -> Vec<Fault> {
    let mut reader = Reader {
        document,
        faults: Vec::new(),
    };
    reader.each("/paths", &document.root["paths"], Reader::item);
    let webhooks = &document.root[WEBHOOKS];
    reader.each(&format!("/{WEBHOOKS}"), webhooks, Reader::item);
    let components = &document.root["components"];
    reader.each("/components/schemas", &components["schemas"], Reader::schema);
    reader.each(
        "/components/parameters",
        &components["parameters"],
        Reader::parameter,
    );
    reader.each(
        "/components/responses",
        &components["responses"],
        Reader::response,
    );
    reader.each("/components/headers", &components["headers"], Reader::header);
    reader.faults
}

struct Reader<'a> {
    document: &'a Document,
    faults: Vec<Fault>,
}

impl Reader<'_> {
    /// Reads each entry of an object or list.
    fn each(&mut self, pointer: &str, entries: &Value, read: fn(&mut Self, &str, &Value)) {
        for (name, entry) in entries.as_object().into_iter().flatten() {
            read(self, &format!("{pointer}/{}", escape(name)), entry);
        }
        for (index, entry) in entries.as_array().into_iter().flatten().enumerate() {
            read(self, &format!("{pointer}/{index}"), entry);
        }
    }

    /// Reports unknown keys of `part`; references are skipped.
    fn keys(&mut self, pointer: &str, part: &Value, known: &[&str]) {
        for key in part.as_object().into_iter().flatten().map(|(key, _)| key) {
            if known.contains(&key.as_str()) || key == "$ref" {
                continue;
            }
            let (rule, message) = if key.starts_with("x-") {
                (
                    "extension",
                    format!("unknown extension `{key}`; see EXTENSIONS.md"),
                )
            } else {
                ("key", format!("`{key}` has no effect here"))
            };
            self.faults.push(self.document.fault(pointer, rule, message));
        }
    }

    fn item(&mut self, pointer: &str, item: &Value) {
        self.each(
            &format!("{pointer}/parameters"),
            &item["parameters"],
            Self::parameter,
        );
        let known = [&METHODS[..], &["parameters"]].concat();
        self.keys(pointer, item, &known);
        for method in METHODS {
            let operation = &item[method];
            let at = format!("{pointer}/{method}");
            self.keys(&at, operation, &[OPERATION, EXTENSIONS].concat());
            self.each(
                &format!("{at}/parameters"),
                &operation["parameters"],
                Self::parameter,
            );
            self.keys(&format!("{at}/requestBody"), &operation["requestBody"], BODY);
            self.content(&format!("{at}/requestBody"), &operation["requestBody"]);
            self.each(
                &format!("{at}/responses"),
                &operation["responses"],
                Self::response,
            );
        }
    }

    fn parameter(&mut self, pointer: &str, parameter: &Value) {
        self.keys(pointer, parameter, PARAMETER);
        self.schema(&format!("{pointer}/schema"), &parameter["schema"]);
    }

    fn response(&mut self, pointer: &str, response: &Value) {
        self.keys(pointer, response, RESPONSE);
        self.each(&format!("{pointer}/headers"), &response["headers"], Self::header);
        self.content(pointer, response);
    }

    fn header(&mut self, pointer: &str, header: &Value) {
        self.keys(pointer, header, HEADER);
        self.schema(&format!("{pointer}/schema"), &header["schema"]);
    }

    fn content(&mut self, pointer: &str, holder: &Value) {
        self.each(&format!("{pointer}/content"), &holder["content"], Self::media);
    }

    fn media(&mut self, pointer: &str, media: &Value) {
        self.keys(pointer, media, MEDIA);
        self.schema(&format!("{pointer}/schema"), &media["schema"]);
    }

    fn schema(&mut self, pointer: &str, schema: &Value) {
        if !schema.is_object() {
            return;
        }
        self.keys(pointer, schema, SCHEMA);
        self.each(
            &format!("{pointer}/properties"),
            &schema["properties"],
            Self::schema,
        );
        for part in ["allOf", TYPES] {
            self.each(&format!("{pointer}/{part}"), &schema[part], Self::schema);
        }
        for part in ["items", "additionalProperties"] {
            self.schema(&format!("{pointer}/{part}"), &schema[part]);
        }
    }
}
