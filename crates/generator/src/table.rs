//! Writes the operation table: descriptions of all operations, their parameters and their input types, as JSON.
//!
//! The package `contract` embeds the table and decodes it once. Equal parameters and equal types are stored once
//! and referenced by their position. A type comes after the types that it refers to.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value, json};

use crate::model::{Contract, Form, Operation, Parameter, Property, Type};
use crate::publish::links::Location;

/// Maximum size of a body in bytes if the contract does not specify one.
const DEFAULT_BODY_LIMIT: u64 = 1 << 20;

/// Returns the table. `locations` are the URLs of created resources, by operation.
///
/// # Errors
/// If an input type contains itself.
pub fn table(contract: &Contract, locations: &BTreeMap<String, Location>) -> Result<String, String> {
    let mut writer = Writer {
        contract,
        locations,
        types: List::default(),
        parameters: List::default(),
        components: HashMap::new(),
    };
    let mut operations = Vec::new();
    for tag in &contract.tags {
        for operation in &tag.operations {
            operations.push(writer.operation(&tag.name, operation)?);
        }
    }
    let table = json!({
        "types": writer.types.entries,
        "parameters": writer.parameters.entries,
        "operations": operations,
    });
    Ok(table.to_string())
}

fn location(location: &Location) -> Value {
    json!({ "path": location.path, "parameters": location.parameters })
}

/// Entries without duplicates.
#[derive(Default)]
struct List {
    entries: Vec<Value>,
    positions: HashMap<String, usize>,
}

impl List {
    /// Returns the position of an entry, which is added if it is new.
    fn add(&mut self, entry: Value) -> usize {
        let entries = &mut self.entries;
        *self.positions.entry(entry.to_string()).or_insert_with(|| {
            entries.push(entry);
            entries.len() - 1
        })
    }
}

struct Writer<'a> {
    contract: &'a Contract,
    locations: &'a BTreeMap<String, Location>,
    types: List,
    parameters: List,
    /// Positions of component schemas; `None` while one is being written.
    components: HashMap<&'a str, Option<usize>>,
}

/// Returns an object without the values that the reader assumes by default.
fn compact<const N: usize>(entries: [(&str, Value); N]) -> Value {
    let is_default = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    let entries = entries.into_iter().filter(|(_, value)| !is_default(value));
    let entries: Map<String, Value> = entries.map(|(name, value)| (name.to_owned(), value)).collect();
    Value::Object(entries)
}

/// Returns a default as JSON text.
fn default_text(value: Option<&Value>) -> Option<String> {
    value.filter(|value| !value.is_null()).map(Value::to_string)
}

impl<'a> Writer<'a> {
    fn operation(&mut self, tag: &str, operation: &'a Operation) -> Result<Value, String> {
        let access = &operation.access;
        let parameters = operation.parameters.iter();
        let parameters: Vec<usize> = parameters
            .map(|parameter| self.parameter(parameter))
            .collect::<Result<_, String>>()?;
        let body = match &operation.body {
            Some(body) => Some(self.component(&body.schema)?),
            None => None,
        };
        let flag = operation.flag.as_ref();
        let flag = flag.map(|gate| {
            compact([
                ("name", json!(gate.name)),
                ("default", json!(gate.default)),
                ("deferred", json!(gate.deferred)),
            ])
        });
        let file = operation.file.as_ref();
        let of_body = operation.body.as_ref().map(|body| body.limit);
        let limit = of_body.or(file.map(|file| file.limit)).or(operation.raw_body);
        let file = file.map(|file| {
            compact([
                ("name", json!(file.name)),
                ("required", json!(file.required)),
                ("attachment", json!(file.attachment)),
                ("whole_body", json!(file.whole_body)),
            ])
        });
        Ok(compact([
            ("id", json!(operation.id)),
            ("tag", json!(tag)),
            ("method", json!(operation.method.to_uppercase())),
            ("path", json!(operation.path)),
            ("rest", json!(operation.rest)),
            ("access", access_rule(access)),
            ("scopes", json!(operation.scopes)),
            ("job_token", json!(operation.job_token)),
            ("package_client", json!(operation.package_client)),
            ("cargo_client", json!(operation.cargo_client)),
            ("no_credentials", json!(operation.no_credentials)),
            ("tier", json!(operation.tier)),
            ("flag", json!(flag)),
            ("paging", json!(operation.page.as_str())),
            ("parameters", json!(parameters)),
            ("body", json!(body)),
            ("one_of", json!(operation.one_of)),
            ("file", json!(file)),
            ("raw_body", json!(operation.raw_body.is_some())),
            ("body_limit", json!(limit.unwrap_or(DEFAULT_BODY_LIMIT))),
            ("success", json!(operation.success.status)),
            (
                "location",
                self.locations.get(&operation.id).map_or(Value::Null, location),
            ),
            ("cacheable", json!(operation.is_cacheable())),
            ("statuses", json!(operation.statuses)),
            ("media_type", json!(operation.media_type)),
            ("error_format", json!(operation.error_format)),
        ]))
    }

    fn parameter(&mut self, parameter: &'a Parameter) -> Result<usize, String> {
        let input = self.input(&parameter.ty)?;
        Ok(self.parameters.add(compact([
            ("name", json!(parameter.name)),
            ("location", json!(parameter.location)),
            ("required", json!(parameter.required)),
            ("default", json!(default_text(parameter.default.as_ref()))),
            ("input", json!(input)),
        ])))
    }

    /// Returns the position of a component schema.
    fn component(&mut self, name: &'a str) -> Result<usize, String> {
        match self.components.get(name) {
            Some(Some(position)) => return Ok(*position),
            Some(None) => return Err(format!("the input schema {name} contains itself")),
            None => {}
        }
        self.components.insert(name, None);
        let contract = self.contract;
        let schema = contract.schemas.iter().find(|schema| schema.name == name);
        let schema = schema.ok_or_else(|| format!("the schema {name} does not exist"))?;
        let position = match &schema.form {
            Form::Object(properties) => {
                let fields: Vec<Value> = properties
                    .iter()
                    .map(|property| self.field(property))
                    .collect::<Result<_, String>>()?;
                self.types.add(json!({ "object": fields }))
            }
            Form::Enum(values) => self.types.add(json!({ "choice": values })),
            Form::Alias(ty) => self.input(ty)?,
        };
        self.components.insert(name, Some(position));
        Ok(position)
    }

    fn field(&mut self, property: &'a Property) -> Result<Value, String> {
        let input = self.input(&property.ty)?;
        Ok(compact([
            ("name", json!(property.name)),
            ("required", json!(property.required)),
            ("nullable", json!(property.nullable)),
            ("default", json!(default_text(property.default.as_ref()))),
            ("input", json!(input)),
        ]))
    }

    /// Returns the position of a type.
    fn input(&mut self, ty: &'a Type) -> Result<usize, String> {
        let entry = match ty {
            Type::Named(name) => return self.component(name),
            Type::Text { min, max, pattern } => json!({ "text": compact([
                ("min", json!(min)),
                ("max", json!(max)),
                ("pattern", json!(pattern)),
            ]) }),
            Type::Integer { min, max, values } => json!({ "integer": compact([
                ("min", json!(min)),
                ("max", json!(max)),
                ("values", json!(values)),
            ]) }),
            Type::Number => json!("number"),
            Type::Boolean => json!("boolean"),
            Type::Timestamp => json!("timestamp"),
            Type::Date => json!("date"),
            Type::Any | Type::Binary => json!("any"),
            Type::List(inner, min, max) => {
                let items = self.input(inner)?;
                json!({ "list": compact([
                    ("items", json!(items)),
                    ("min", json!(min)),
                    ("max", json!(max)),
                ]) })
            }
            Type::Map(inner) => json!({ "map": self.input(inner)? }),
            Type::Deferred(_) => return Err("values of requests cannot be deferred".to_owned()),
        };
        Ok(self.types.add(entry))
    }
}

fn access_rule(access: &crate::model::Access) -> Value {
    compact([
        ("on", json!(access.on)),
        ("min", json!(access.min)),
        ("anonymous", json!(access.anonymous)),
        ("archived", json!(access.archived)),
        ("first", json!(access.first)),
    ])
}
