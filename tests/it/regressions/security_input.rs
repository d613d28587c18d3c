//! Hostile values in every parameter and every field of every operation never cause a server error.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;

use contract::operation::ResourceKind;
use contract::operation::{Field, InputType, Operation, Parameter, ParameterLocation};
use contract::table::operations;
use futures_util::{FutureExt, StreamExt, stream};
use reqwest::Method;
use serde_json::{Map, Value, json};

use crate::spaces::scim::Provider;
use crate::support::client::segment;
use crate::support::repository::Sample;
use crate::support::{Client, TestServer, on_every_database};

/// Maximum number of concurrent requests.
const AT_A_TIME: usize = 8;
/// Maximum number of operations in which a parameter of the same name is attacked. Parameters of many operations, such
/// as `id` and `page`, are decoded by shared code.
const MAX_OPERATIONS: usize = 30;

/// Returns the values that attack an input type. The decoder refuses all texts and objects for a type without text in the
/// same way, so these types get few of them.
fn hostile(input: &InputType) -> Vec<Value> {
    let mut values = vec![json!(null), json!(""), json!([]), json!(-1), json!("99999999999999999999999999999")];
    match input {
        InputType::Integer { .. } | InputType::Number | InputType::Boolean | InputType::Choice(_) => return values,
        InputType::Timestamp | InputType::Date => {
            values.push(json!("-262143-01-01T00:00:00Z"));
            return values;
        }
        _ => {}
    }
    values.extend([
        json!({}),
        json!("\0"),
        json!("--upload-pack=touch x"),
        json!("../../x"),
        json!("-262143-01-01T00:00:00Z"),
        json!("x".repeat(70_000)),
        json!([{ "": [null] }]),
    ]);
    values
}

fn fields(input: &'static InputType) -> &'static [Field] {
    match input {
        InputType::Object(fields) => fields,
        InputType::List { items, .. } => fields(items),
        _ => &[],
    }
}

/// Returns a value of an input type.
fn valid_value(input: &'static InputType) -> Value {
    match input {
        InputType::Integer { values, .. } => json!(values.first().copied().unwrap_or(1)),
        InputType::Number => json!(1),
        InputType::Boolean => json!(true),
        InputType::Timestamp => json!("2024-01-01T00:00:00Z"),
        InputType::Date => json!("2099-01-01"),
        InputType::Choice(choices) => json!(choices.first()),
        InputType::List { items, .. } => json!([valid_value(items)]),
        InputType::Object(fields) => Value::Object(required_fields(fields)),
        InputType::Map(_) => json!({}),
        _ => json!("main"),
    }
}

fn required_fields(fields: &'static [Field]) -> Map<String, Value> {
    let needed = fields.iter().filter(|field| field.required);
    needed.map(|field| (field.name.to_owned(), valid_value(field.input))).collect()
}

/// A request to send.
struct Attack {
    method: Method,
    path: String,
    query: Vec<(String, String)>,
    body: Value,
    about: String,
}

/// IDs used in paths.
struct Ids {
    project: i64,
    user: i64,
}

/// Returns the parameters to attack in each operation: at most [`MAX_OPERATIONS`] for each location and name, which are
/// distributed over all operations that have the parameter.
fn attacked_parameters() -> Vec<(&'static Operation, Vec<&'static Parameter>)> {
    let key = |parameter: &Parameter| (parameter.location == ParameterLocation::Path, parameter.name);
    let mut totals: HashMap<_, usize> = HashMap::new();
    for parameter in operations().iter().flat_map(|operation| operation.parameters) {
        *totals.entry(key(parameter)).or_default() += 1;
    }
    let mut seen: HashMap<_, usize> = HashMap::new();
    let mut is_attacked = |parameter: &&Parameter| {
        let step = totals[&key(parameter)].div_ceil(MAX_OPERATIONS);
        let number = seen.entry(key(parameter)).or_default();
        *number += 1;
        (*number - 1).is_multiple_of(step)
    };
    let mut attacked = Vec::new();
    for operation in operations() {
        attacked.push((operation, operation.parameters.iter().copied().filter(&mut is_attacked).collect()));
    }
    attacked
}

fn attacks(operation: &'static Operation, parameters: &[&'static Parameter], ids: &Ids) -> Vec<Attack> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let body = operation.body.map(|input| required_fields(fields(input))).unwrap_or_default();
    let case = |about: String, placed: Option<(&str, &str)>, requested: Option<(String, String)>, body: &Map<_, _>| {
        let mut path = match operation.path.strip_prefix("/api/v4") {
            Some(below) => below.to_owned(),
            None => format!("/{}", operation.path),
        };
        for parameter in operation.parameters.iter().filter(|one| one.location == ParameterLocation::Path) {
            let value = match (placed, parameter.name, operation.access.on) {
                (Some((name, value)), known, _) if name == known => segment(value),
                (_, "id", ResourceKind::Project) => ids.project.to_string(),
                (_, "id" | "user_id", ResourceKind::User) => ids.user.to_string(),
                (_, "file_path", _) => "README%2Emd".to_owned(),
                (_, "id" | "user_id" | "token_id", _) => ids.user.to_string(),
                _ => "main".to_owned(),
            };
            path = path.replace(&format!("{{{}}}", parameter.name), &value);
        }
        let queried =
            operation.parameters.iter().filter(|one| one.location == ParameterLocation::Query && one.required);
        let mut query: Vec<_> = queried.map(|one| (one.name.to_owned(), text(&valid_value(one.input)))).collect();
        if let Some(requested) = requested {
            query.retain(|(name, _)| *name != requested.0);
            query.push(requested);
        }
        let method = operation.method.parse().expect("a method");
        Attack { method, path, query, body: Value::Object(body.clone()), about }
    };
    let mut created = Vec::new();
    for parameter in parameters {
        for sent in hostile(parameter.input).iter().map(text) {
            let about = format!("{} {}={:?}", operation.id, parameter.name, start(&sent));
            match parameter.location {
                // A path longer than the maximum request line is rejected before routing.
                ParameterLocation::Path if !sent.is_empty() && sent.len() < 10_000 => {
                    created.push(case(about, Some((parameter.name, &sent)), None, &body));
                }
                // A valid DELETE would remove the data that the other requests need.
                ParameterLocation::Query if operation.method != "DELETE" && sent.len() < 10_000 => {
                    let requested = (parameter.name.to_owned(), sent);
                    created.push(case(about, None, Some(requested), &body));
                }
                _ => {}
            }
        }
    }
    let known = operation.body.map(fields).unwrap_or_default();
    for field in known.iter().filter(|_| operation.method != "DELETE") {
        for value in hostile(field.input) {
            let about = format!("{} {}={:?}", operation.id, field.name, start(&text(&value)));
            let mut bad = body.clone();
            bad.insert(field.name.to_owned(), value);
            created.push(case(about, None, None, &bad));
        }
        for inner in fields(field.input) {
            for value in hostile(inner.input) {
                let about = format!("{} {}.{}={:?}", operation.id, field.name, inner.name, start(&text(&value)));
                let mut entry = required_fields(fields(field.input));
                entry.insert(inner.name.to_owned(), value);
                let mut bad = body.clone();
                bad.insert(field.name.to_owned(), json!([entry]));
                created.push(case(about, None, None, &bad));
            }
        }
    }
    created
}

/// Returns the first characters of a value.
fn start(value: &str) -> &str {
    value.char_indices().nth(40).map_or(value, |(end, _)| &value[..end])
}

async fn failure(client: &Client, attack: Attack) -> Option<String> {
    let mut request = client.request(attack.method.clone(), &attack.path).query(&attack.query);
    if attack.method != Method::GET && attack.method != Method::HEAD {
        request = request.json(&attack.body);
    }
    // A response that violates the contract panics; report it together with its request.
    let Ok(response) = AssertUnwindSafe(client.send(request)).catch_unwind().await else {
        return Some(attack.about);
    };
    // Errors of SCIM have `detail`, and only some of them have `message` as well.
    let has_message = response.status < 400
        || attack.method == Method::HEAD
        || ["message", "detail"].iter().any(|key| response.json().get(key).is_some());
    (response.status >= 500 || !has_message).then(|| format!("{}: {}", attack.about, response.status))
}

async fn hostile_values_never_cause_server_errors(server: TestServer) {
    let sample = Sample::new(&server).await;
    // SCIM operations require their own token; other operations ignore it in this header.
    let provider = Provider::of(&server, "main").await;
    let root = server.root().header("Authorization", &format!("Bearer {}", provider.token));
    let ids = Ids { project: sample.id, user: server.create_user("ann").await.id };
    let attacked = attacked_parameters();
    let all = attacked.iter().flat_map(|(operation, parameters)| attacks(operation, parameters, &ids));
    let all: Vec<_> = all.collect();
    assert!(all.len() > 10_000, "{}", all.len());
    let failures: Vec<_> = stream::iter(all)
        .map(|attack| failure(&root, attack))
        .buffer_unordered(AT_A_TIME)
        .filter_map(|failure| async { failure })
        .collect()
        .await;
    assert!(failures.is_empty(), "{failures:#?}");
}

async fn timestamps_outside_database_range_return_400(server: TestServer) {
    for time in ["-262143-01-01", "%2B262142-12-31T00:00:00Z", "0000-12-31T23:00:00Z", "9999-12-31T23:59:59-01:00"] {
        let response = server.root().get(&format!("/users?created_after={time}")).await.expect(400);
        assert_eq!(response.message(), "created_after is invalid", "{time}");
    }
    server.root().get("/users?created_after=0001-01-01T00:00:00Z").await.expect(200);
}

on_every_database![hostile_values_never_cause_server_errors, timestamps_outside_database_range_return_400,];
