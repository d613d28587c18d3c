//! Converts the linted document to the model of the emitter.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::defaults::EDGE_PARAMETERS;
use crate::load::{DEFERRED, Document, Fault, escape};
use crate::model::{
    Access, Body, Content, Contract, FilePart, Flag, Form, Group, Operation, Paging, Parameter, Property,
    Schema, Success, Tag, Type,
};
use crate::publish::links;

/// Supported methods of an operation.
pub const METHODS: [&str; 6] = ["get", "head", "post", "put", "patch", "delete"];
/// Status of a redirect.
const REDIRECT: u16 = 302;
/// Default limit of a body: 1 MiB.
const DEFAULT_BODY_LIMIT: u64 = 1 << 20;
/// Default media type of responses.
const JSON: &str = "application/json";
/// Media type of a body that is a file.
pub const BYTES: &str = "application/octet-stream";
/// Maximum number of texts in a comma-separated text.
const MAX_SEPARATED: u64 = 100;
/// Headers that pagination and raw downloads set without the handler.
const RUNTIME_HEADERS: [&str; 13] = [
    "X-Total",
    "X-Total-Pages",
    "X-Per-Page",
    "X-Page",
    "X-Next-Page",
    "X-Prev-Page",
    "Link",
    "Links",
    "Cache-Control",
    "ETag",
    "Accept-Ranges",
    "Content-Range",
    "Content-Disposition",
];

/// Returns the JSON part of a content and its media type: `application/json`, or a type based on JSON. Bytes are no
/// JSON part, also if their media type is based on JSON.
pub fn json_of(content: &Value) -> Option<(&str, &Value)> {
    let mut media = content.as_object()?.iter();
    let is_json = |name: &str| name == JSON || name.ends_with("+json");
    let (name, media) = media.find(|(name, media)| is_json(name) && !is_file(&media["schema"]))?;
    Some((name, media))
}

/// Lowers a document that passed the lints.
///
/// # Errors
/// Faults that the lints cannot detect, such as a type that the server does not support.
pub fn lower(document: &Document) -> Result<Contract, Vec<Fault>> {
    let mut lowering = Lowering {
        document,
        faults: Vec::new(),
    };
    let operations = lowering.operations();
    let schemas = lowering.schemas(&operations);
    let tags = lowering.tags(operations);
    let groups = lowering.groups();
    if lowering.faults.is_empty() {
        Ok(Contract {
            tags,
            schemas,
            groups,
        })
    } else {
        Err(lowering.faults)
    }
}

struct Lowering<'a> {
    document: &'a Document,
    faults: Vec<Fault>,
}

fn text(value: &Value, key: &str) -> String {
    value
        .get(key)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .trim()
        .to_owned()
}

fn flag(value: &Value, key: &str) -> bool {
    value.get(key).and_then(Value::as_bool).unwrap_or(false)
}

/// Returns the lists of `x-one-of`.
fn one_of(operation: &Value) -> Vec<Vec<String>> {
    let lists = operation["x-one-of"].as_array().into_iter().flatten();
    let names = |list: &Value| {
        let names = list.as_array().into_iter().flatten();
        names.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    lists.map(names).collect()
}

/// Returns whether a property of a form is a file.
pub fn is_file(property: &Value) -> bool {
    property["format"] == "binary"
}

fn reference_name(value: &Value) -> Option<String> {
    value.get("$ref")?.as_str()?.rsplit('/').next().map(str::to_owned)
}

impl Lowering<'_> {
    fn operations(&mut self) -> Vec<(String, Operation)> {
        let mut operations = Vec::new();
        let paths = self.document.root["paths"]
            .as_object()
            .cloned()
            .unwrap_or_default();
        for (path, item) in &paths {
            for method in METHODS {
                if let Some(operation) = item.get(method) {
                    let pointer = format!("/paths/{}/{method}", escape(path));
                    let tag = operation["tags"][0].as_str().unwrap_or_default().to_owned();
                    operations.push((tag, self.operation(&pointer, path, method, item, operation)));
                }
            }
        }
        operations
    }

    fn operation(
        &mut self,
        pointer: &str,
        path: &str,
        method: &str,
        item: &Value,
        operation: &Value,
    ) -> Operation {
        let access = &operation["x-access"];
        let read = matches!(method, "get" | "head");
        let default_scopes: &[&str] = if read { &["api", "read_api"] } else { &["api"] };
        let scopes = match operation.get("x-scope").and_then(Value::as_array) {
            Some(scopes) => scopes
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
            None => default_scopes.iter().map(|scope| (*scope).to_owned()).collect(),
        };
        let page = match operation.get("x-page").and_then(Value::as_str) {
            Some("keyset") => Paging::Keyset,
            Some(_) => Paging::Offset,
            None => Paging::None,
        };
        let limit = operation
            .get("x-body-limit")
            .and_then(Value::as_u64)
            .unwrap_or(DEFAULT_BODY_LIMIT);
        let raw = flag(operation, "x-raw-body");
        let (body, file) = match raw {
            true => (None, None),
            false => self.body(operation, limit),
        };
        let flag_gate = operation.get("x-flag").map(|gate| Flag {
            name: text(gate, "name"),
            default: flag(gate, "default"),
            deferred: gate.get("of").is_some(),
        });
        let responses = operation["responses"].as_object().cloned().unwrap_or_default();
        Operation {
            id: text(operation, "operationId"),
            method: method.to_owned(),
            path: path.to_owned(),
            rest: self.has_rest(item, operation),
            summary: text(operation, "summary"),
            description: text(operation, "description"),
            parameters: self.parameters(pointer, item, operation, page),
            groups: self
                .document
                .groups
                .operations
                .get(pointer)
                .cloned()
                .unwrap_or_default(),
            body,
            file,
            raw_body: raw.then_some(limit),
            success: self.success(pointer, &responses),
            statuses: responses
                .keys()
                .filter_map(|status| status.parse().ok())
                .collect(),
            access: Access {
                on: text(access, "on"),
                min: text(access, "min"),
                anonymous: flag(access, "anonymous"),
                archived: flag(access, "archived"),
                first: flag(access, "first"),
            },
            scopes,
            job_token: flag(operation, "x-job-token"),
            package_client: flag(operation, "x-package-client") || operation["x-package-client"] == "cargo",
            cargo_client: operation["x-package-client"] == "cargo",
            no_credentials: operation["security"] == json!([{}]),
            time_dependent: flag(operation, "x-time-dependent"),
            tier: operation
                .get("x-tier")
                .and_then(Value::as_str)
                .unwrap_or("free")
                .to_owned(),
            flag: flag_gate,
            page,
            one_of: one_of(operation),
            media_type: self.media_type(&responses),
            error_format: match operation.get("x-errors") {
                Some(form) => form.as_str().unwrap_or_default().to_owned(),
                None => "plain".to_owned(),
            },
        }
    }

    /// Returns the attributes of a body, and the file part of a form.
    fn body(&self, operation: &Value, limit: u64) -> (Option<Body>, Option<FilePart>) {
        let content = &operation["requestBody"]["content"];
        let json = json_of(content).map(|(_, media)| &media["schema"]);
        let form = content.get("multipart/form-data").map(|media| &media["schema"]);
        let form = form.map(|schema| (reference_name(schema), self.document.deref(schema)));
        let properties = |schema: &Value| schema["properties"].as_object().cloned().unwrap_or_default();
        let file = form.as_ref().and_then(|(_, schema)| {
            let all = properties(schema);
            let (name, _) = all.iter().find(|(_, property)| is_file(property))?;
            let required = schema["required"].as_array();
            Some(FilePart {
                name: name.clone(),
                required: required.is_some_and(|names| names.iter().any(|one| one == name)),
                attachment: operation["x-attachment"] != false,
                whole_body: content.get(BYTES).is_some(),
                limit,
            })
        });
        let attributes = form.filter(|(_, schema)| properties(schema).values().any(|one| !is_file(one)));
        let schema = json
            .and_then(reference_name)
            .or(attributes.and_then(|(name, _)| name));
        (schema.map(|schema| Body { schema, limit }), file)
    }

    /// Returns whether a path parameter matches the rest of the path.
    fn has_rest(&self, item: &Value, operation: &Value) -> bool {
        let lists = [&item["parameters"], &operation["parameters"]];
        let mut all = lists.into_iter().filter_map(Value::as_array).flatten();
        all.any(|parameter| flag(self.document.deref(parameter), "x-rest"))
    }

    fn parameters(&mut self, pointer: &str, item: &Value, operation: &Value, page: Paging) -> Vec<Parameter> {
        let shared = item
            .get("parameters")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        let own = operation
            .get("parameters")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        let mut parameters = Vec::new();
        for parameter in shared.iter().chain(&own) {
            let parameter = self.document.deref(parameter);
            let name = text(parameter, "name");
            let paging = matches!(name.as_str(), "page" | "per_page" | "pagination");
            if (paging && page != Paging::None) || EDGE_PARAMETERS.contains(&name.as_str()) {
                continue;
            }
            parameters.push(self.parameter(pointer, parameter));
        }
        parameters
    }

    fn parameter(&mut self, pointer: &str, parameter: &Value) -> Parameter {
        let name = text(parameter, "name");
        let schema = &parameter["schema"];
        let target = self.document.deref(schema);
        let default = schema.get("default").or_else(|| target.get("default")).cloned();
        Parameter {
            name: name.trim_end_matches("[]").to_owned(),
            location: text(parameter, "in"),
            description: text(parameter, "description"),
            required: flag(parameter, "required"),
            passed: flag(parameter, "x-passed"),
            ty: self.ty(&format!("{pointer}/parameters/{}", escape(&name)), schema),
            default,
        }
    }

    fn groups(&mut self) -> Vec<Group> {
        let document = self.document;
        let mut groups = Vec::new();
        for (name, group) in &document.groups.definitions {
            let pointer = format!("/{}", escape(name));
            let parameters = group["parameters"].as_array().into_iter().flatten();
            let parameters = parameters.map(|parameter| self.parameter(&pointer, document.deref(parameter)));
            let parameters = parameters.collect();
            let properties = match self.form(&pointer, group) {
                Form::Object(properties) => properties,
                Form::Enum(_) | Form::Alias(_) => Vec::new(),
            };
            groups.push(Group {
                name: name.clone(),
                description: text(group, "description"),
                parameters,
                properties,
            });
        }
        groups
    }

    fn success(&mut self, pointer: &str, responses: &serde_json::Map<String, Value>) -> Success {
        let found = responses.iter().find_map(|(status, response)| {
            Some((
                status
                    .parse()
                    .ok()
                    .filter(|s| (200..300).contains(s) || *s == REDIRECT)?,
                response,
            ))
        });
        let Some((status, response)) = found else {
            self.faults.push(self.document.fault(
                pointer,
                "success",
                "no 2xx response and no 302 is documented",
            ));
            return Success {
                status: 200,
                content: Content::Empty,
                headers: false,
                optional: false,
                nullable: false,
            };
        };
        let response = self.document.deref(response);
        if status == REDIRECT {
            return Success {
                status,
                content: Content::Redirect,
                headers: false,
                optional: false,
                nullable: false,
            };
        }
        let headers = response
            .get("headers")
            .and_then(Value::as_object)
            .is_some_and(|headers| {
                headers.iter().any(|(name, header)| {
                    !RUNTIME_HEADERS.contains(&name.as_str()) && !links::is_resource_location(header)
                })
            });
        let content = match response.get("content") {
            None => Content::Empty,
            Some(content) => match json_of(content) {
                Some((_, media)) => {
                    Content::Json(self.ty(&format!("{pointer}/responses/{status}"), &media["schema"]))
                }
                None => Content::Download,
            },
        };
        Success {
            status,
            content,
            headers,
            optional: status != 204 && responses.contains_key("204"),
            nullable: json_of(&response["content"])
                .is_some_and(|(_, media)| flag(&media["schema"], "nullable")),
        }
    }

    /// Returns the media type of the JSON response.
    fn media_type(&self, responses: &serde_json::Map<String, Value>) -> String {
        let mut successes = responses.iter().filter(|(status, _)| status.starts_with('2'));
        let found = successes.find_map(|(_, response)| json_of(&self.document.deref(response)["content"]));
        found.map_or(JSON, |(name, _)| name).to_owned()
    }

    /// Lowers a schema used as a type.
    fn ty(&mut self, pointer: &str, schema: &Value) -> Type {
        if let Some(name) = reference_name(schema) {
            return Type::Named(name);
        }
        if let Some(name) = schema.pointer("/allOf/0").and_then(reference_name) {
            return Type::Named(name);
        }
        let integer = |key: &str| schema.get(key).and_then(Value::as_i64);
        match (
            schema.get("type").and_then(Value::as_str),
            schema.get("format").and_then(Value::as_str),
        ) {
            (Some("string"), Some("date-time")) => Type::Timestamp,
            (Some("string"), Some("date")) => Type::Date,
            (Some("string"), Some("binary")) => Type::Binary,
            (Some("string"), Some("comma-separated")) => {
                let item = Type::Text {
                    min: None,
                    max: schema.get("maxLength").and_then(Value::as_u64),
                    pattern: None,
                };
                Type::List(Box::new(item), 0, Some(MAX_SEPARATED))
            }
            (Some("string"), _) => Type::Text {
                min: schema.get("minLength").and_then(Value::as_u64),
                max: schema.get("maxLength").and_then(Value::as_u64),
                pattern: schema.get("pattern").and_then(Value::as_str).map(str::to_owned),
            },
            (Some("integer"), _) => Type::Integer {
                min: integer("minimum"),
                max: integer("maximum"),
                values: schema
                    .get("enum")
                    .and_then(Value::as_array)
                    .map(|values| values.iter().filter_map(Value::as_i64).collect())
                    .unwrap_or_default(),
            },
            (Some("number"), _) => Type::Number,
            (Some("boolean"), _) => Type::Boolean,
            (Some("array"), _) => {
                let items = self.ty(&format!("{pointer}/items"), &schema["items"]);
                let count = |key: &str| schema.get(key).and_then(Value::as_u64);
                Type::List(Box::new(items), count("minItems").unwrap_or(0), count("maxItems"))
            }
            (Some("object"), _) if schema.get("additionalProperties").is_some_and(Value::is_object) => {
                let value = &schema["additionalProperties"];
                let value = self.ty(&format!("{pointer}/additionalProperties"), value);
                Type::Map(Box::new(match flag(schema, DEFERRED) {
                    true => Type::Deferred(Box::new(value)),
                    false => value,
                }))
            }
            (Some("object"), _) if schema.get("properties").is_none() => Type::Map(Box::new(Type::Any)),
            (None, _) => Type::Any,
            (Some(other), _) => {
                let message =
                    format!("the server does not support an unnamed `{other}`; make it a component");
                self.faults.push(self.document.fault(pointer, "form", message));
                Type::Any
            }
        }
    }

    fn schemas(&mut self, operations: &[(String, Operation)]) -> Vec<Schema> {
        let (mut bodies, mut nested, mut output) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for (_, operation) in operations {
            for parameter in &operation.parameters {
                self.reach(&parameter.ty, &mut nested);
            }
            if let Some(body) = &operation.body {
                self.body_schema(&body.schema, &mut bodies, &mut nested);
            }
            if let Content::Json(ty) = &operation.success.content {
                self.reach(ty, &mut output);
            }
        }
        for name in self.document.groups.schemas.keys() {
            if nested.contains(name) || output.contains(name) {
                let pointer = format!("/components/schemas/{}", escape(name));
                let message = "only the body of a request may include a group";
                self.faults
                    .push(self.document.fault(&pointer, "group-body", message));
            }
        }
        let names: BTreeSet<&String> = bodies.iter().chain(&nested).chain(&output).collect();
        let mut schemas = Vec::new();
        for name in names {
            let pointer = format!("/components/schemas/{}", escape(name));
            let Some(schema) = self.document.root.pointer(&pointer) else {
                continue;
            };
            schemas.push(Schema {
                name: name.clone(),
                description: text(schema, "description"),
                body: bodies.contains(name),
                nested: nested.contains(name),
                output: output.contains(name),
                groups: self
                    .document
                    .groups
                    .schemas
                    .get(name)
                    .cloned()
                    .unwrap_or_default(),
                form: self.form(&pointer, schema),
            });
        }
        schemas
    }

    /// Adds the schema of a body, and the components that its properties refer to.
    fn body_schema(&mut self, name: &str, bodies: &mut BTreeSet<String>, nested: &mut BTreeSet<String>) {
        let pointer = format!("/components/schemas/{}", escape(name));
        if !bodies.insert(name.to_owned()) {
            return;
        }
        let Some(schema) = self.document.root.pointer(&pointer) else {
            return;
        };
        match self.form(&pointer, schema) {
            Form::Object(properties) => {
                for property in properties {
                    self.reach(&property.ty, nested);
                }
            }
            Form::Alias(Type::Named(target)) => self.body_schema(&target, bodies, nested),
            Form::Alias(_) | Form::Enum(_) => {
                let message = "a body must be an object";
                self.faults
                    .push(self.document.fault(&pointer, "body-object", message));
            }
        }
    }

    /// Adds all components that `ty` refers to.
    fn reach(&mut self, ty: &Type, names: &mut BTreeSet<String>) {
        match ty {
            Type::List(inner, ..) | Type::Map(inner) | Type::Deferred(inner) => self.reach(inner, names),
            Type::Named(name) if names.insert(name.clone()) => {
                let pointer = format!("/components/schemas/{}", escape(name));
                if let Some(schema) = self.document.root.pointer(&pointer) {
                    match self.form(&pointer, schema) {
                        Form::Object(properties) => {
                            properties
                                .iter()
                                .for_each(|property| self.reach(&property.ty, names));
                        }
                        Form::Alias(inner) => self.reach(&inner, names),
                        Form::Enum(_) => {}
                    }
                }
            }
            _ => {}
        }
    }

    fn form(&mut self, pointer: &str, schema: &Value) -> Form {
        let values = schema.get("enum").and_then(Value::as_array);
        if let (Some("string"), Some(values)) = (schema.get("type").and_then(Value::as_str), values) {
            return Form::Enum(
                values
                    .iter()
                    .filter_map(Value::as_str)
                    .map(str::to_owned)
                    .collect(),
            );
        }
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
            return Form::Alias(self.ty(pointer, schema));
        };
        let required: Vec<&str> = schema
            .get("required")
            .and_then(Value::as_array)
            .map(|names| names.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        // Files are not attributes.
        let attributes = properties.iter().filter(|(_, property)| !is_file(property));
        let lowered = attributes.map(|(name, property)| Property {
            name: name.clone(),
            description: text(property, "description"),
            required: required.contains(&name.as_str()),
            nullable: flag(property, "nullable"),
            default: property.get("default").cloned(),
            ty: self.ty(&format!("{pointer}/properties/{}", escape(name)), property),
        });
        Form::Object(lowered.collect())
    }

    fn tags(&mut self, operations: Vec<(String, Operation)>) -> Vec<Tag> {
        let mut grouped: BTreeMap<String, Vec<Operation>> = BTreeMap::new();
        for (tag, operation) in operations {
            grouped.entry(tag).or_default().push(operation);
        }
        let declared = self.document.root["tags"].as_array().cloned().unwrap_or_default();
        declared
            .iter()
            .filter_map(|tag| {
                let name = text(tag, "name");
                let operations = grouped.remove(&name)?;
                Some(Tag {
                    description: text(tag, "description"),
                    name,
                    operations,
                })
            })
            .collect()
    }
}
