//! Hostile values in every parameter and every field of every operation: refused or taken, never a failure.

use std::panic::AssertUnwindSafe;

use domain::kernel::policy::On;
use futures_util::{FutureExt, StreamExt, stream};
use holdfast::api::contract::OPERATIONS;
use holdfast::api::operation::{Field, Operation, Place, Shape};
use reqwest::Method;
use serde_json::{Map, Value, json};

use crate::scim::Provider;
use crate::support::client::segment;
use crate::support::repository::Sample;
use crate::support::{Client, TestServer, on_every_database};

/// How many requests are under way at a time.
const AT_A_TIME: usize = 8;

fn hostile() -> Vec<Value> {
    let mut values = vec![json!(null), json!(""), json!([]), json!({}), json!(-1), json!("\0")];
    values.extend([
        json!("99999999999999999999999999999"),
        json!("--upload-pack=touch x"),
        json!("../../x"),
        json!("-262143-01-01T00:00:00Z"),
        json!("x".repeat(70_000)),
        json!([{ "": [null] }]),
    ]);
    values
}

fn plain(shape: &'static Shape) -> &'static Shape {
    match shape {
        Shape::Named(inner) => plain(inner),
        other => other,
    }
}

fn fields(shape: &'static Shape) -> &'static [Field] {
    match plain(shape) {
        Shape::Object(fields) => fields,
        Shape::List { items, .. } => fields(items),
        _ => &[],
    }
}

/// Something that a shape takes.
fn sound(shape: &'static Shape) -> Value {
    match plain(shape) {
        Shape::Integer { values, .. } => json!(values.first().copied().unwrap_or(1)),
        Shape::Number => json!(1),
        Shape::Boolean => json!(true),
        Shape::Timestamp => json!("2024-01-01T00:00:00Z"),
        Shape::Date => json!("2099-01-01"),
        Shape::Choice(choices) => json!(choices.first()),
        Shape::List { items, .. } => json!([sound(items)]),
        Shape::Object(fields) => Value::Object(required(fields)),
        Shape::Map(_) => json!({}),
        _ => json!("main"),
    }
}

fn required(fields: &'static [Field]) -> Map<String, Value> {
    let needed = fields.iter().filter(|field| field.required);
    needed.map(|field| (field.name.to_owned(), sound(&field.shape))).collect()
}

/// A request as it is to be sent.
struct Attack {
    method: Method,
    path: String,
    query: Vec<(String, String)>,
    body: Value,
    about: String,
}

/// The ids that stand in paths.
struct Ids {
    project: i64,
    user: i64,
}

fn attacks(operation: &'static Operation, ids: &Ids) -> Vec<Attack> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let body = operation.body.map(|shape| required(fields(shape))).unwrap_or_default();
    let make = |about: String, placed: Option<(&str, &str)>, asked: Option<(String, String)>, body: &Map<_, _>| {
        let mut path = match operation.path.strip_prefix("/api/v4") {
            Some(below) => below.to_owned(),
            None => format!("/{}", operation.path),
        };
        for parameter in operation.parameters.iter().filter(|one| one.place == Place::Path) {
            let value = match (placed, parameter.name, operation.access.on) {
                (Some((name, value)), known, _) if name == known => segment(value),
                (_, "id", On::Project) => ids.project.to_string(),
                (_, "id" | "user_id", On::User) => ids.user.to_string(),
                (_, "file_path", _) => "README%2Emd".to_owned(),
                (_, "id" | "user_id" | "token_id", _) => ids.user.to_string(),
                _ => "main".to_owned(),
            };
            path = path.replace(&format!("{{{}}}", parameter.name), &value);
        }
        let queried = operation.parameters.iter().filter(|one| one.place == Place::Query && one.required);
        let mut query: Vec<_> = queried.map(|one| (one.name.to_owned(), text(&sound(&one.shape)))).collect();
        if let Some(asked) = asked {
            query.retain(|(name, _)| *name != asked.0);
            query.push(asked);
        }
        let method = operation.method.parse().expect("a method");
        Attack { method, path, query, body: Value::Object(body.clone()), about }
    };
    let mut made = Vec::new();
    for value in hostile() {
        let sent = text(&value);
        let short: String = sent.chars().take(40).collect();
        for parameter in operation.parameters {
            let about = format!("{} {}={short:?}", operation.id, parameter.name);
            match parameter.place {
                // A path longer than a request line may be is no question to this server's rules.
                Place::Path if !sent.is_empty() && sent.len() < 10_000 => {
                    made.push(make(about, Some((parameter.name, &sent)), None, &body));
                }
                // What is valid after all must not delete what the others ask about.
                Place::Query if operation.method != "DELETE" && sent.len() < 10_000 => {
                    let asked = (parameter.name.to_owned(), sent.clone());
                    made.push(make(about, None, Some(asked), &body));
                }
                _ => {}
            }
        }
        let known = operation.body.map(fields).unwrap_or_default();
        for field in known.iter().filter(|_| operation.method != "DELETE") {
            let about = format!("{} {}={short:?}", operation.id, field.name);
            let mut bad = body.clone();
            bad.insert(field.name.to_owned(), value.clone());
            made.push(make(about, None, None, &bad));
            for inner in fields(&field.shape) {
                let about = format!("{} {}.{}={short:?}", operation.id, field.name, inner.name);
                let mut entry = required(fields(&field.shape));
                entry.insert(inner.name.to_owned(), value.clone());
                let mut bad = body.clone();
                bad.insert(field.name.to_owned(), json!([entry]));
                made.push(make(about, None, None, &bad));
            }
        }
    }
    made
}

async fn failure(client: &Client, attack: Attack) -> Option<String> {
    let mut request = client.request(attack.method.clone(), &attack.path).query(&attack.query);
    if attack.method != Method::GET && attack.method != Method::HEAD {
        request = request.json(&attack.body);
    }
    // What breaks the contract is told with what caused it, and beside the others.
    let Ok(answer) = AssertUnwindSafe(client.send(request)).catch_unwind().await else {
        return Some(attack.about);
    };
    let tells = answer.status < 400 || attack.method == Method::HEAD || answer.json().get("message").is_some();
    (answer.status >= 500 || !tells).then(|| format!("{}: {}", attack.about, answer.status))
}

async fn no_hostile_value_makes_an_operation_fail(server: TestServer) {
    let sample = Sample::new(&server).await;
    // Identity providers have a token of their own, which stands where it counts for nothing else.
    let provider = Provider::of(&server, "main").await;
    let root = server.root().header("Authorization", &format!("Bearer {}", provider.token));
    let ids = Ids { project: sample.id, user: server.person("ann").await.id };
    let all: Vec<_> = OPERATIONS.iter().flat_map(|operation| attacks(operation, &ids)).collect();
    assert!(all.len() > 1_000, "{}", all.len());
    let failures: Vec<_> = stream::iter(all)
        .map(|attack| failure(&root, attack))
        .buffer_unordered(AT_A_TIME)
        .filter_map(|failure| async { failure })
        .collect()
        .await;
    assert!(failures.is_empty(), "{failures:#?}");
}

async fn years_that_no_database_keeps_are_refused(server: TestServer) {
    for time in ["-262143-01-01", "%2B262142-12-31T00:00:00Z", "0000-12-31T23:00:00Z", "9999-12-31T23:59:59-01:00"] {
        let answer = server.root().get(&format!("/users?created_after={time}")).await.expect(400);
        assert_eq!(answer.message(), "created_after is invalid", "{time}");
    }
    server.root().get("/users?created_after=0001-01-01T00:00:00Z").await.expect(200);
}

on_every_database![no_hostile_value_makes_an_operation_fail, years_that_no_database_keeps_are_refused,];
