//! The operation table: decodes the data that the generator wrote.
//!
//! Compiling the descriptions of hundreds of operations as static data is slow, so the table is embedded as JSON and
//! decoded when it is first used. A test decodes it, so a shipped table is valid.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::operation::{
    AccessRule, ErrorFormat, Field, FilePart, Flag, InputType, MinimumAccess, Operation, Paging, Parameter,
    ParameterLocation, ResourceKind, ResourceLocation, Tier,
};

static OPERATIONS: LazyLock<&'static [Operation]> = LazyLock::new(|| {
    let table = include_str!(concat!(env!("OUT_DIR"), "/table.json"));
    match decode(table) {
        Ok(operations) => operations,
        Err(error) => unreachable!("the operation table of the build is invalid: {error}"),
    }
});

/// Returns all operations of the contract, in the order of the tags.
#[must_use]
pub fn operations() -> &'static [Operation] {
    &OPERATIONS
}

/// Returns the operation with an ID.
#[must_use]
pub fn operation(id: &str) -> Option<&'static Operation> {
    operations().iter().find(|operation| operation.id == id)
}

#[derive(Deserialize)]
struct Table {
    types: Vec<TypeEntry>,
    parameters: Vec<ParameterEntry>,
    operations: Vec<OperationEntry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum TypeEntry {
    Text {
        #[serde(default)]
        min: u64,
        max: Option<u64>,
        pattern: Option<String>,
    },
    Integer {
        min: Option<i64>,
        max: Option<i64>,
        #[serde(default)]
        values: Vec<i64>,
    },
    Number,
    Boolean,
    Timestamp,
    Date,
    Choice(Vec<String>),
    List {
        items: usize,
        #[serde(default)]
        min: u64,
        max: Option<u64>,
    },
    Object(Vec<FieldEntry>),
    Map(usize),
    Any,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FieldEntry {
    name: String,
    #[serde(default)]
    required: bool,
    #[serde(default)]
    nullable: bool,
    default: Option<String>,
    input: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ParameterEntry {
    name: String,
    location: ParameterLocation,
    #[serde(default)]
    required: bool,
    default: Option<String>,
    input: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OperationEntry {
    id: String,
    tag: String,
    method: String,
    path: String,
    #[serde(default)]
    rest: bool,
    access: AccessEntry,
    #[serde(default)]
    scopes: Vec<String>,
    #[serde(default)]
    job_token: bool,
    #[serde(default)]
    package_client: bool,
    #[serde(default)]
    cargo_client: bool,
    #[serde(default)]
    no_credentials: bool,
    tier: Tier,
    flag: Option<FlagEntry>,
    paging: Paging,
    #[serde(default)]
    parameters: Vec<usize>,
    body: Option<usize>,
    #[serde(default)]
    one_of: Vec<Vec<String>>,
    file: Option<FileEntry>,
    #[serde(default)]
    raw_body: bool,
    body_limit: u64,
    success: u16,
    location: Option<LocationEntry>,
    #[serde(default)]
    cacheable: bool,
    statuses: Vec<u16>,
    media_type: String,
    error_format: ErrorFormat,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AccessEntry {
    on: ResourceKind,
    min: MinimumAccess,
    #[serde(default)]
    anonymous: bool,
    #[serde(default)]
    archived: bool,
    #[serde(default)]
    first: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LocationEntry {
    path: String,
    parameters: Vec<(String, String)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FlagEntry {
    name: String,
    #[serde(default)]
    default: bool,
    #[serde(default)]
    deferred: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileEntry {
    name: String,
    #[serde(default)]
    required: bool,
    #[serde(default)]
    attachment: bool,
    #[serde(default)]
    whole_body: bool,
}

/// Decodes a table. The result is used until the process ends, so its memory is never freed.
fn decode(text: &str) -> Result<&'static [Operation], String> {
    let table: Table = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut types: Vec<&'static InputType> = Vec::with_capacity(table.types.len());
    for entry in table.types {
        let decoded = input_type(entry, &types)?;
        types.push(Box::leak(Box::new(decoded)));
    }
    let parameters = table.parameters.into_iter().map(|entry| {
        let parameter = Parameter {
            name: entry.name.leak(),
            location: entry.location,
            required: entry.required,
            default: entry.default.map(leak),
            input: at(&types, entry.input)?,
        };
        Ok(&*Box::leak(Box::new(parameter)))
    });
    let parameters = parameters.collect::<Result<Vec<&'static Parameter>, String>>()?;
    let operations = table.operations.into_iter();
    let operations = operations.map(|entry| operation_of(entry, &types, &parameters));
    Ok(operations.collect::<Result<Vec<_>, _>>()?.leak())
}

fn leak(text: String) -> &'static str {
    text.leak()
}

fn leak_all(texts: Vec<String>) -> &'static [&'static str] {
    texts.into_iter().map(leak).collect::<Vec<_>>().leak()
}

/// Returns an entry by its position. Entries refer only to earlier ones.
fn at<T>(entries: &[&'static T], position: usize) -> Result<&'static T, String> {
    let entry = entries.get(position).copied();
    entry.ok_or_else(|| format!("there is no entry {position}"))
}

fn input_type(entry: TypeEntry, types: &[&'static InputType]) -> Result<InputType, String> {
    Ok(match entry {
        TypeEntry::Text { min, max, pattern } => InputType::Text {
            min,
            max,
            pattern: pattern.map(leak),
        },
        TypeEntry::Integer { min, max, values } => InputType::Integer {
            min,
            max,
            values: values.leak(),
        },
        TypeEntry::Number => InputType::Number,
        TypeEntry::Boolean => InputType::Boolean,
        TypeEntry::Timestamp => InputType::Timestamp,
        TypeEntry::Date => InputType::Date,
        TypeEntry::Choice(choices) => InputType::Choice(leak_all(choices)),
        TypeEntry::List { items, min, max } => InputType::List {
            items: at(types, items)?,
            min,
            max,
        },
        TypeEntry::Object(fields) => {
            let fields = fields.into_iter().map(|field| {
                Ok(Field {
                    name: field.name.leak(),
                    required: field.required,
                    nullable: field.nullable,
                    default: field.default.map(leak),
                    input: at(types, field.input)?,
                })
            });
            InputType::Object(fields.collect::<Result<Vec<_>, String>>()?.leak())
        }
        TypeEntry::Map(values) => InputType::Map(at(types, values)?),
        TypeEntry::Any => InputType::Any,
    })
}

fn operation_of(
    entry: OperationEntry,
    types: &[&'static InputType],
    parameters: &[&'static Parameter],
) -> Result<Operation, String> {
    let own = entry.parameters.into_iter();
    let own = own.map(|position| at(parameters, position));
    Ok(Operation {
        id: entry.id.leak(),
        tag: entry.tag.leak(),
        method: entry.method.leak(),
        path: entry.path.leak(),
        rest: entry.rest,
        access: AccessRule {
            on: entry.access.on,
            min: entry.access.min,
            anonymous: entry.access.anonymous,
            archived: entry.access.archived,
            first: entry.access.first,
        },
        scopes: leak_all(entry.scopes),
        job_token: entry.job_token,
        package_client: entry.package_client,
        cargo_client: entry.cargo_client,
        no_credentials: entry.no_credentials,
        tier: entry.tier,
        flag: entry.flag.map(|flag| Flag {
            name: flag.name.leak(),
            default: flag.default,
            deferred: flag.deferred,
        }),
        paging: entry.paging,
        parameters: own.collect::<Result<Vec<_>, String>>()?.leak(),
        body: entry.body.map(|position| at(types, position)).transpose()?,
        one_of: entry.one_of.into_iter().map(leak_all).collect::<Vec<_>>().leak(),
        file: entry.file.map(|file| FilePart {
            name: file.name.leak(),
            required: file.required,
            attachment: file.attachment,
            whole_body: file.whole_body,
        }),
        raw_body: entry.raw_body,
        body_limit: entry.body_limit,
        success: entry.success,
        location: entry.location.map(|location| ResourceLocation {
            path: location.path.leak(),
            parameters: location
                .parameters
                .into_iter()
                .map(|(name, attribute)| (leak(name), leak(attribute)))
                .collect::<Vec<_>>()
                .leak(),
        }),
        cacheable: entry.cacheable,
        statuses: entry.statuses.leak(),
        media_type: entry.media_type.leak(),
        error_format: entry.error_format,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn embedded_table_has_every_operation_of_the_document() {
        let json = crate::document::find("openapi.json")
            .expect("a document")
            .content()
            .expect("JSON");
        let document: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
        let methods = document["paths"].as_object().into_iter().flatten();
        let documented: BTreeSet<&str> = methods
            .flat_map(|(_, item)| item.as_object().into_iter().flatten())
            .filter_map(|(_, operation)| operation["operationId"].as_str())
            .collect();
        let decoded: BTreeSet<&str> = operations().iter().map(|operation| operation.id).collect();
        assert!(!decoded.is_empty());
        assert_eq!(decoded, documented);
    }

    #[test]
    fn decode_rejects_unknown_positions_and_keys() {
        let list = r#"{"types": [{"list": {"items": 1}}], "parameters": [], "operations": []}"#;
        assert_eq!(decode(list).err().as_deref(), Some("there is no entry 1"));
        let unknown = r#"{"types": [{"text": {"length": 1}}], "parameters": [], "operations": []}"#;
        assert!(decode(unknown).is_err());
    }
}
