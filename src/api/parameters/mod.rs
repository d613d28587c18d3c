//! Parameters: combines path, query, headers and body of a request into one validated value.
//!
//! The body may be JSON, URL-encoded or multipart, and its attributes may also be sent in the query. A path
//! parameter overrides a body attribute of the same name, and the body overrides the query. All faults of a
//! request are reported together.

mod coerce;
mod date_times;
mod faults;

use std::fs::File;
use std::io::BufReader;

use coerce::Slot;
use contract::input::Input;
use contract::operation::{Field, InputType, Operation, Paging, Parameter, ParameterLocation, ResourceKind};
use domain::kernel::budgets::RequestMemory;
use domain::kernel::error::{Error, Result};
use domain::kernel::page::PageRequest;
use faults::Faults;
use parsers::json::{self, JsonError};
use parsers::multipart::{FormError, FormParts, PartKind};
use poem::http::header::CONTENT_TYPE;
use poem::http::{HeaderMap, HeaderValue};
use poem::{FromRequest, Request, RequestBody};
use serde_json::de::{IoRead, Read, SliceRead};
use serde_json::{Map, Value, json};
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;

use crate::api::media_type::essence;
use crate::observability::table::BUDGET_REJECTIONS;

/// Default number of items per page.
pub const DEFAULT_PAGE_SIZE: i64 = 20;
/// Maximum number of items per page.
pub const MAX_PAGE_SIZE: i64 = 100;
/// Query parameter of every operation. If it is true, unknown parameters are errors.
const STRICT: &str = "strict";
/// Query parameters of every operation that identify the caller.
const CREDENTIALS: [&str; 4] = ["private_token", "access_token", "job_token", "sudo"];

/// Decodes the query of a request.
///
/// # Errors
/// [`Error::InvalidParameters`] if it is not UTF-8 or nested too deeply.
pub fn query(text: &str) -> Result<Map<String, Value>> {
    form(text.as_bytes())
}

fn form(text: &[u8]) -> Result<Map<String, Value>> {
    parsers::form::parse(text).map_err(Error::parameter)
}

/// Format of a body without a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyFormat {
    /// JSON.
    Json,
    /// URL-encoded pairs.
    Form,
    /// A multipart form.
    Multipart,
}

/// Returns the format of a body by its content type.
///
/// # Errors
/// [`Error::InvalidParameters`] for other types.
pub fn body_format(headers: &HeaderMap) -> Result<BodyFormat> {
    match essence(headers).as_str() {
        "application/x-www-form-urlencoded" => Ok(BodyFormat::Form),
        "multipart/form-data" => Ok(BodyFormat::Multipart),
        "" | "application/json" => Ok(BodyFormat::Json),
        other if other.ends_with("+json") => Ok(BodyFormat::Json),
        _ => Err(Error::parameter(
            "the Content-Type must be application/json, a type that ends with +json, \
             application/x-www-form-urlencoded or multipart/form-data",
        )),
    }
}

/// Parses the attributes of a body by its content type. The values of JSON are counted in `memory`.
///
/// # Errors
/// [`Error::InvalidParameters`] if the body does not match its type. [`Error::Overloaded`] if too little memory is
/// left.
pub async fn body(
    request: &Request,
    bytes: Vec<u8>,
    memory: Option<&RequestMemory>,
) -> Result<Map<String, Value>> {
    // Clients send the JSON type with an empty body on GET and DELETE; that is valid.
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(Map::new());
    }
    match body_format(request.headers())? {
        BodyFormat::Form => form(&bytes),
        BodyFormat::Multipart => multipart(request, bytes).await,
        BodyFormat::Json => attributes(SliceRead::new(&bytes), bytes.len() as u64, memory),
    }
}

/// Parses the attributes of a large form on a blocking thread. The reservation of `memory` and the
/// `slot` end after the parser.
///
/// # Errors
/// As [`body`].
pub async fn large_form(
    content_type: Option<HeaderValue>,
    bytes: Vec<u8>,
    memory: Option<RequestMemory>,
    slot: OwnedSemaphorePermit,
) -> Result<Map<String, Value>> {
    let runtime = Handle::current();
    let parse = move || {
        let _slot = slot;
        // The parser of multipart forms is asynchronous, and reads the type from a request.
        let mut request = Request::default();
        if let Some(content_type) = content_type {
            request.headers_mut().insert(CONTENT_TYPE, content_type);
        }
        runtime.block_on(body(&request, bytes, memory.as_ref()))
    };
    tokio::task::spawn_blocking(parse)
        .await
        .map_err(Error::internal)?
}

/// Parses the attributes of a JSON body of `size` bytes in a file. Blocks the thread.
///
/// # Errors
/// As [`body`].
pub fn json_file(file: &File, size: u64, memory: Option<&RequestMemory>) -> Result<Map<String, Value>> {
    let reader = BufReader::with_capacity(64 << 10, file);
    attributes(IoRead::new(reader), size, memory)
}

fn attributes<'de>(
    reader: impl Read<'de>,
    size: u64,
    memory: Option<&RequestMemory>,
) -> Result<Map<String, Value>> {
    let reserve = |bytes| memory.map_or(Ok(()), |memory| memory.reserve(bytes));
    let value = json::parse(reader, size, &reserve).map_err(|error| match error {
        JsonError::Invalid(text) => Error::parameter(text),
        JsonError::TooManyValues => {
            metrics::counter!(BUDGET_REJECTIONS.name, "budget" => "json_values", "scope" => "request")
                .increment(1);
            Error::parameter(error.to_string())
        }
        JsonError::Memory(error) => error,
    })?;
    match value {
        Value::Object(attributes) => Ok(attributes),
        Value::Null => Ok(Map::new()),
        _ => Err(Error::parameter("the body must be a JSON object")),
    }
}

async fn multipart(request: &Request, bytes: Vec<u8>) -> Result<Map<String, Value>> {
    let invalid = |_| Error::parameter("the body is not a valid multipart form");
    let mut body = RequestBody::new(poem::Body::from(bytes));
    let mut parts = poem::web::Multipart::from_request(request, &mut body)
        .await
        .map_err(invalid)?;
    // The limit of the body limits the texts.
    let mut form = FormParts::new(None, u64::MAX);
    while let Some(part) = parts
        .next_field()
        .await
        .map_err(|_| Error::parameter("the multipart body is incomplete"))?
    {
        let kind = form
            .begin(part.name(), part.file_name().is_some())
            .map_err(form_error)?;
        let Some(name) = part.name().filter(|_| kind == PartKind::Text).map(str::to_owned) else {
            continue;
        };
        let bytes = part
            .bytes()
            .await
            .map_err(|_| Error::parameter("the multipart body is incomplete"))?;
        form.add(&name, bytes).map_err(form_error)?;
    }
    Ok(form.finish())
}

/// Converts the error of a multipart form.
pub(super) fn form_error(error: FormError) -> Error {
    match error {
        FormError::Invalid(text) => Error::parameter(text),
        FormError::TooLarge => Error::TooLarge,
    }
}

/// The input of a request before validation.
pub struct RawInput<'a> {
    /// Decoded path parameters in the order of the template.
    pub path: &'a [(&'static str, String)],
    /// The decoded query.
    pub query: Map<String, Value>,
    /// The attributes of the body.
    pub body: Map<String, Value>,
    /// The headers.
    pub headers: &'a HeaderMap,
}

/// Checks only the path parameters, for operations that look up their resource before they read other input.
///
/// # Errors
/// [`Error::InvalidParameters`] with every fault, in declared order.
pub fn check_path(operation: &Operation, path: &[(&'static str, String)]) -> Result<()> {
    let mut faults = Faults::default();
    let placeholders = operation.parameters.iter();
    for parameter in placeholders.filter(|parameter| parameter.location == ParameterLocation::Path) {
        coerce::slot(&rules(parameter), placeholder(path, parameter), &mut faults);
    }
    faults.check()
}

/// Returns the value of a path parameter.
fn placeholder(path: &[(&'static str, String)], parameter: &Parameter) -> Option<Value> {
    path.iter()
        .find(|(name, _)| *name == parameter.name)
        .map(|(_, value)| Value::String(value.clone()))
}

fn rules(parameter: &'static Parameter) -> Slot<'static> {
    Slot {
        name: parameter.name,
        required: parameter.required,
        nullable: false,
        default: parameter.default,
        input: parameter.input,
    }
}

/// Checks the input against the contract and returns the values that the generated request type parses.
///
/// # Errors
/// [`Error::InvalidParameters`] with every fault, in declared order.
pub fn check(operation: &Operation, raw: RawInput<'_>) -> Result<(Input, Option<PageRequest>)> {
    let RawInput {
        path,
        mut query,
        mut body,
        headers,
    } = raw;
    if operation.access.on == ResourceKind::Scim
        && let Some(InputType::Object(fields)) = operation.body
    {
        use_declared_names(fields, &mut body);
    }
    let strict = query.remove(STRICT);
    // The body overrides the query: either may contain any parameter.
    let mut attributes = query;
    attributes.extend(body);
    let mut faults = Faults::default();
    let mut request = Map::new();
    for parameter in operation.parameters {
        let value = match parameter.location {
            ParameterLocation::Path => {
                attributes.remove(parameter.name);
                placeholder(path, parameter)
            }
            ParameterLocation::Query => attributes
                .remove(parameter.name)
                .map(|value| coerce::without_blanks(parameter.input, value)),
            ParameterLocation::Header => headers
                .get(parameter.name)
                .and_then(|value| value.to_str().ok())
                .map(|text| json!(text)),
        };
        if let Some(value) = coerce::slot(&rules(parameter), value, &mut faults) {
            request.insert(parameter.name.to_owned(), value);
        }
    }
    let page = (operation.paging != Paging::None).then(|| page(operation, &mut attributes, &mut faults));
    if let Some(InputType::Object(fields)) = operation.body {
        alternatives(operation, &attributes, &mut faults);
        let body = coerce::fields(fields, &mut attributes, None, &mut faults);
        request.insert("body".to_owned(), Value::Object(body));
    }
    if strict.is_some_and(|value| value == "true") {
        let mut unknown: Vec<&str> = attributes.keys().map(String::as_str).collect();
        unknown.retain(|name| !CREDENTIALS.contains(name));
        unknown.sort_unstable();
        for name in unknown {
            faults.add(format!("{name} is not a parameter of this operation"));
        }
    }
    faults.check()?;
    Ok((request.into(), page))
}

/// Renames attributes to the names of the contract. The case of the names of SCIM does not matter (RFC 7643, section 2.1).
fn use_declared_names(fields: &[Field], entries: &mut Map<String, Value>) {
    for field in fields {
        if !entries.contains_key(field.name) {
            let sent = entries
                .keys()
                .find(|name| name.eq_ignore_ascii_case(field.name))
                .cloned();
            if let Some(value) = sent.and_then(|name| entries.remove(&name)) {
                entries.insert(field.name.to_owned(), value);
            }
        }
        let Some(value) = entries.get_mut(field.name) else {
            continue;
        };
        match (field.input, value) {
            (InputType::Object(fields), Value::Object(entries)) => use_declared_names(fields, entries),
            (
                InputType::List {
                    items: InputType::Object(fields),
                    ..
                },
                Value::Array(values),
            ) => {
                let objects = values.iter_mut().filter_map(Value::as_object_mut);
                objects.for_each(|entries| use_declared_names(fields, entries));
            }
            _ => {}
        }
    }
}

/// Returns the faults of a request body of an operation, or nothing if it is valid or the operation takes no body.
pub fn body_faults(operation: &Operation, mut attributes: Map<String, Value>) -> Vec<String> {
    let mut faults = Faults::default();
    if let Some(InputType::Object(fields)) = operation.body {
        coerce::fields(fields, &mut attributes, None, &mut faults);
    }
    faults.into_texts()
}

/// Checks that exactly one attribute of each list of alternatives is sent.
fn alternatives(operation: &Operation, attributes: &Map<String, Value>, faults: &mut Faults) {
    for names in operation.one_of {
        let sent = names
            .iter()
            .filter(|name| attributes.get(**name).is_some_and(|value| !value.is_null()));
        let sent: Vec<&str> = sent.copied().collect();
        match sent.len() {
            0 => faults.add(format!(
                "{} are missing, exactly one parameter must be provided",
                names.join(", ")
            )),
            1 => {}
            _ => faults.add(format!("{} are mutually exclusive", sent.join(", "))),
        }
    }
}

/// Reads the requested page. A size below 1 becomes the default, a size above the maximum becomes the maximum.
fn page(operation: &Operation, attributes: &mut Map<String, Value>, faults: &mut Faults) -> PageRequest {
    static PAGINATION: Slot = Slot {
        name: "pagination",
        required: false,
        nullable: false,
        default: None,
        input: &InputType::Choice(&["offset", "keyset"]),
    };
    static NUMBER: InputType = InputType::Integer {
        min: None,
        max: None,
        values: &[],
    };
    let mut number = |name: &'static str, default: &'static str| {
        let rules = Slot {
            name,
            required: false,
            nullable: false,
            default: Some(default),
            input: &NUMBER,
        };
        coerce::slot(&rules, attributes.remove(name), faults)
            .and_then(|value| value.as_i64())
            .unwrap_or(1)
    };
    let page = number("page", "1").max(1);
    let size = match number("per_page", "20") {
        ..1 => DEFAULT_PAGE_SIZE,
        size => size.min(MAX_PAGE_SIZE),
    };
    let pagination = attributes.remove("pagination");
    let keyset = operation.paging == Paging::Keyset
        && coerce::slot(&PAGINATION, pagination, faults).is_some_and(|way| way == "keyset");
    PageRequest {
        number: page,
        size,
        keyset,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::FutureExt;
    use tokio::sync::Semaphore;

    use super::*;

    #[test]
    fn large_forms_are_parsed_on_a_blocking_thread() {
        let part =
            |text: &str| format!("--X\r\nContent-Disposition: form-data; name=\"a[]\"\r\n\r\n{text}\r\n");
        let forms = [
            ("application/x-www-form-urlencoded", "a[]=1&a[]=2".to_owned()),
            (
                "multipart/form-data; boundary=X",
                format!("{}{}--X--\r\n", part("1"), part("2")),
            ),
        ];
        let runtime = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(1)
            .build()
            .unwrap();
        runtime.block_on(async {
            // Occupies the only blocking thread, so that a form is complete at once only if this thread parses it.
            let (release, released) = std::sync::mpsc::channel::<()>();
            let occupied = tokio::task::spawn_blocking(move || released.recv());
            let slots = Arc::new(Semaphore::new(3));
            let large_form = |content_type, text: String| {
                let slot = Arc::clone(&slots).try_acquire_owned().unwrap();
                let content_type = HeaderValue::from_static(content_type);
                Box::pin(large_form(Some(content_type), text.into_bytes(), None, slot))
            };
            let abandoned = large_form("application/x-www-form-urlencoded", "a=1".to_owned());
            assert!(abandoned.now_or_never().is_none());
            let mut parsers = forms.map(|(content_type, text)| large_form(content_type, text));
            for parser in &mut parsers {
                assert!(parser.as_mut().now_or_never().is_none());
            }
            // The parser of the dropped future has its slot until it ends.
            assert_eq!(slots.available_permits(), 0);
            release.send(()).unwrap();
            occupied.await.unwrap().unwrap();
            for parser in parsers {
                let attributes = parser.await.unwrap();
                assert_eq!(Value::Object(attributes), json!({"a": ["1", "2"]}));
            }
            assert_eq!(slots.available_permits(), 3);
        });
    }
}
