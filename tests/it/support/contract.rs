//! Validation of responses against the contract: status, content type, headers and body schema.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

use contract::document::{Extent, Format, Version, document_text};
use contract::operation::Operation;
use contract::table::operations;
use jsonschema::{Draft, Registry, Validator};
use serde_json::{Value, json};

use super::ApiResponse;

/// The published OpenAPI document.
pub static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    let text = document_text(Version::V3_0, Extent::Complete, Format::Json).expect("a document");
    serde_json::from_str(&text).expect("JSON")
});

/// Operations by method and number of path segments, with the segments of their path templates.
static ROUTES: LazyLock<HashMap<(&str, usize), Vec<Route>>> = LazyLock::new(|| {
    let mut routes: HashMap<_, Vec<Route>> = HashMap::new();
    for operation in operations() {
        let segments: Vec<&str> = operation.path.split('/').collect();
        let route = (operation.method, segments.len());
        routes.entry(route).or_default().push((operation, segments));
    }
    routes
});

/// An operation and the segments of its path template.
type Route = (&'static Operation, Vec<&'static str>);

/// Returns the operation for a method and a raw path.
pub fn operation(method: &str, path: &str) -> Option<&'static Operation> {
    let sent: Vec<&str> = path.split('/').collect();
    let found = |method: &str| {
        let routes = ROUTES.get(&(method, sent.len())).into_iter().flatten();
        routes
            .filter(|(_, template)| matches(template, &sent))
            .map(|(operation, _)| *operation)
            .min_by_key(|operation| operation.path.matches('{').count())
    };
    let found = |method: &str| found(method).or_else(|| with_rest(method, &sent));
    // The GET operation responds to a HEAD request without an operation of its own.
    found(method).or_else(|| if method == "HEAD" { found("GET") } else { None })
}

/// Returns the operation whose last parameter matches the rest of the path.
fn with_rest(method: &str, sent: &[&str]) -> Option<&'static Operation> {
    let mut all = operations().iter().filter(|operation| operation.rest && operation.method == method);
    all.find(|operation| {
        let template: Vec<&str> = operation.path.split('/').collect();
        template.len() <= sent.len() && matches(&template, sent)
    })
}

fn matches(template: &[&str], sent: &[&str]) -> bool {
    template.iter().zip(sent).all(|(pattern, segment)| match pattern.split_once('{') {
        Some((prefix, _)) => segment.starts_with(prefix) && segment.len() > prefix.len(),
        None => pattern == segment,
    })
}

/// Panics if a response violates the contract.
pub fn check(method: &str, path: &str, response: &ApiResponse) {
    let body = || String::from_utf8_lossy(&response.body).chars().take(2_000).collect::<String>();
    assert_ne!(response.status, 500, "{method} {path} failed: {}", body());
    // Preflight requests are not part of the contract.
    if method == "OPTIONS" && response.status == 204 {
        return;
    }
    // Duplicate slashes are accepted in some paths.
    let normalized = path.replace("//", "/");
    let normalized = normalized.strip_suffix('/').unwrap_or(&normalized);
    let normalized = &encode_scope(normalized);
    let Some(operation) = operation(method, path).or_else(|| operation(method, normalized)) else {
        assert!(matches!(response.status, 404 | 405 | 410), "{method} {path} is no operation but {}", response.status);
        if method != "HEAD" {
            let scim = path == "/api/scim" || path.starts_with("/api/scim/");
            let text = if scim { "detail" } else { "message" };
            assert!(response.json()[text].is_string(), "{method} {path}: {}", body());
        }
        return;
    };
    record(operation.id, response.status);
    let item = &DOCUMENT["paths"][operation.path][operation.method.to_lowercase()];
    let documented = &item["responses"][response.status.to_string()];
    assert!(
        !documented.is_null(),
        "{} returned {}, which is not documented: {}",
        operation.id,
        response.status,
        body()
    );
    let documented = deref(documented);
    for (name, header) in documented["headers"].as_object().into_iter().flatten() {
        let required = deref(header)["required"] == json!(true);
        assert!(!required || response.headers.contains_key(name), "{} lacks header {name}", operation.id);
    }
    let Some(content) = documented["content"].as_object().filter(|_| method != "HEAD") else {
        assert!(response.body.is_empty(), "{} has a body: {}", operation.id, body());
        return;
    };
    let essence = response.header("content-type").split(';').next().unwrap_or_default().trim().to_owned();
    assert!(content.contains_key(&essence), "{} returned {essence:?}, documented {:?}", operation.id, content.keys());
    let schema = &content[&essence]["schema"];
    let is_json = essence == "application/json" || essence.ends_with("+json");
    if is_json && schema["format"] != "binary" {
        validate((operation.id, response.status, essence), schema, &response.json());
    }
}

/// Encodes the slash of a scoped name in a path of an npm registry, which the server accepts too.
fn encode_scope(path: &str) -> String {
    for prefix in ["/packages/npm/@", "/packages/npm/-/package/@"] {
        match path.split_once(prefix) {
            Some((before, rest)) if !rest.to_lowercase().contains("%2f") => {
                return format!("{before}{prefix}{}", rest.replacen('/', "%2F", 1));
            }
            _ => {}
        }
    }
    path.to_owned()
}

/// Panics if the body of a webhook request violates the contract.
pub fn check_delivery(body: &Value) {
    let Some(kind) = body["object_kind"].as_str() else { return };
    let webhooks = DOCUMENT["x-webhooks"].as_object().expect("webhooks");
    let (name, item) = webhooks.get_key_value(kind).unwrap_or_else(|| panic!("the webhook {kind} is not documented"));
    let schema = &item["post"]["requestBody"]["content"]["application/json"]["schema"];
    validate((name.as_str(), 0, "application/json".to_owned()), schema, body);
}

/// Resolves a local reference.
pub fn deref(value: &'static Value) -> &'static Value {
    match value["$ref"].as_str() {
        Some(reference) => DOCUMENT.pointer(&reference[1..]).expect("a component"),
        None => value,
    }
}

/// Operation ID, status and media type of a response; name of a webhook and 0 for a request to a receiver.
type Documented = (&'static str, u16, String);

/// Panics if a value violates its schema.
fn validate(response: Documented, schema: &Value, value: &Value) {
    static VALIDATORS: LazyLock<Mutex<HashMap<Documented, Validator>>> = LazyLock::new(Mutex::default);
    let mut validators = VALIDATORS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let validator = validators.entry(response.clone()).or_insert_with(|| {
        let mut schema = schema.clone();
        to_json_schema(&mut schema);
        let options = jsonschema::options().with_draft(Draft::Draft4);
        let options = options.with_registry(&COMPONENTS);
        options.build(&schema).expect("a schema")
    });
    let errors: Vec<String> =
        validator.iter_errors(value).map(|fault| format!("{}: {fault}", fault.instance_path())).collect();
    assert!(errors.is_empty(), "{response:?} violates its schema:\n{}\n{value:#}", errors.join("\n"));
}

/// Base URI of the referenced components.
const COMPONENTS_URI: &str = "urn:contract";

/// Components that schemas reference. They are large, so all validators share them.
static COMPONENTS: LazyLock<Registry<'static>> = LazyLock::new(|| {
    let mut components = json!({ "components": DOCUMENT["components"] });
    to_json_schema(&mut components);
    let registry = Registry::new().draft(Draft::Draft4).add(COMPONENTS_URI, components);
    registry.expect("an address").prepare().expect("components")
});

/// Converts an OpenAPI schema to JSON Schema: `nullable`, references, and no undocumented properties in objects.
fn to_json_schema(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(to_json_schema),
        Value::Object(entries) => {
            entries.values_mut().for_each(to_json_schema);
            if let Some(Value::String(reference)) = entries.get_mut("$ref") {
                reference.insert_str(0, COMPONENTS_URI);
            }
            if entries.get("properties").is_some_and(Value::is_object)
                && entries.get("type") == Some(&json!("object"))
                && !entries.contains_key("additionalProperties")
            {
                entries.insert("additionalProperties".to_owned(), json!(false));
            }
            if entries.remove("nullable") == Some(json!(true)) {
                let inner = Value::Object(std::mem::take(entries));
                entries.insert("anyOf".to_owned(), json!([{ "type": "null" }, inner]));
            }
        }
        _ => {}
    }
}

/// Records the status of an operation for the coverage check that runs after all tests.
fn record(id: &str, status: u16) {
    if let Ok(folder) = std::env::var("HOLDFAST_COVERAGE_DIR") {
        std::fs::create_dir_all(&folder).expect("a coverage folder");
        std::fs::write(format!("{folder}/{id}.{status}"), "").expect("a coverage mark");
    }
}
