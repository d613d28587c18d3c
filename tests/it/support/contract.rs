//! Validation of responses against the contract: status, content type, headers and body schema.

use std::collections::HashMap;
use std::sync::LazyLock;

use boon::Draft;
use contract::document::{Extent, Format, Version, document_text};
use contract::operation::Operation;
use contract::table::operations;
use serde_json::{Value, json};

use super::ApiResponse;
use super::schemas::CompiledSchemas;

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
    let essence = response.header("content-type").split(';').next().unwrap_or_default().trim();
    let Some((media, content)) = content.get_key_value(essence) else {
        panic!("{} returned {essence:?}, documented {:?}", operation.id, content.keys());
    };
    if is_json(media, &content["schema"]) {
        validate((operation.id, response.status, media), &response.json());
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
    let (name, _) = webhooks.get_key_value(kind).unwrap_or_else(|| panic!("the webhook {kind} is not documented"));
    validate((name, 0, JSON), body);
}

/// Resolves a local reference.
pub fn deref(value: &'static Value) -> &'static Value {
    match value["$ref"].as_str() {
        Some(reference) => DOCUMENT.pointer(&reference[1..]).expect("a component"),
        None => value,
    }
}

/// Operation ID, status and media type of a response; name of a webhook and 0 for a request to a receiver.
type Documented = (&'static str, u16, &'static str);

/// Schemas of all JSON bodies, and their positions.
struct BodySchemas {
    compiled: CompiledSchemas,
    positions: HashMap<Documented, usize>,
}

static BODY_SCHEMAS: LazyLock<BodySchemas> = LazyLock::new(|| {
    let responses = operations().iter().flat_map(|operation| {
        let part = &DOCUMENT["paths"][&operation.path][operation.method.to_lowercase()];
        let responses = part["responses"].as_object().expect("responses").iter();
        responses.flat_map(move |(status, response)| {
            let status = status.parse().expect("a status");
            let contents = deref(response)["content"].as_object().into_iter().flatten();
            contents.map(move |(media, content)| ((operation.id, status, &**media), content))
        })
    });
    let webhooks = DOCUMENT["x-webhooks"].as_object().expect("webhooks").iter();
    let webhooks = webhooks.map(|(name, item)| {
        let content = &item["post"]["requestBody"]["content"][JSON];
        ((&**name, 0, JSON), content)
    });
    let (mut schemas, mut positions) = (Vec::new(), HashMap::new());
    for (documented, content) in responses.chain(webhooks) {
        if is_json(documented.2, &content["schema"]) {
            positions.insert(documented, schemas.len());
            schemas.push(to_json_schema(content["schema"].clone()));
        }
    }
    let components = to_json_schema(DOCUMENT["components"].clone());
    let compiled = CompiledSchemas::new(Draft::V4, &components, schemas);
    BodySchemas { compiled, positions }
});

const JSON: &str = "application/json";

fn is_json(media: &str, schema: &Value) -> bool {
    (media == JSON || media.ends_with("+json")) && schema["format"] != "binary"
}

/// Panics if a value violates its schema.
fn validate(documented: Documented, value: &Value) {
    let position = BODY_SCHEMAS.positions[&documented];
    if let Err(violations) = BODY_SCHEMAS.compiled.validate(position, value) {
        panic!("{documented:?} violates its schema:\n{violations}\n{value:#}");
    }
}

/// Converts OpenAPI schemas to JSON Schema: `nullable`, and no undocumented properties in objects.
pub fn to_json_schema(mut schema: Value) -> Value {
    convert(&mut schema);
    schema
}

fn convert(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(convert),
        Value::Object(entries) => {
            entries.values_mut().for_each(convert);
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
