//! Feature gates.

mod open;
mod targets;

use serde_json::{Value, json};

use crate::support::client::segment;
use crate::support::{ApiResponse, Client, TestServer, on_every_database};

/// Sets a gate and returns it.
pub async fn gate(client: &Client, name: &str, body: Value) -> Value {
    post(client, name, body).await.expect(201).json()
}

async fn post(client: &Client, name: &str, body: Value) -> ApiResponse {
    client.post(&format!("/features/{}", segment(name)), body).await
}

/// Returns the JSON of a gate with the boolean and these other values.
fn gate_json(name: &str, state: &str, open: bool, parts: &[(&str, Value)]) -> Value {
    let mut gates = vec![json!({"key": "boolean", "value": open})];
    gates.extend(parts.iter().map(|(key, value)| json!({"key": key, "value": value})));
    json!({"name": name, "state": state, "gates": gates})
}

async fn feature_gate_lifecycle(server: TestServer) {
    let root = server.root();
    assert_eq!(root.get("/features").await.expect(200).json(), json!([]));
    let first = gate(&root, "new_library", json!({"value": true})).await;
    assert_eq!(first, gate_json("new_library", "on", true, &[]));
    let second = gate(&root, "a/b ö", json!({"value": 30})).await;
    assert_eq!(second, gate_json("a/b ö", "conditional", false, &[("percentage_of_time", json!(30))]));
    let list = root.get("/features").await.expect(200);
    assert_eq!((list.json(), list.header("x-total")), (json!([first, second]), "2"));
    assert_eq!(root.get("/features?per_page=1&page=2").await.expect(200).json(), json!([second]));
    let early = root.clone().header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT");
    early.delete("/features/new_library").await.expect(412);
    for _ in 0..2 {
        root.delete("/features/new_library").await.expect(204);
    }
    early.delete("/features/new_library").await.expect(204);
    assert_eq!(root.get("/features").await.expect(200).json(), json!([second]));
}

async fn set_gate_value_determines_state(server: TestServer) {
    let root = server.root();
    let (time, actors) = ("percentage_of_time", "percentage_of_actors");
    for (body, expected) in [
        (json!({"value": "true"}), gate_json("g", "on", true, &[])),
        (json!({"value": "false"}), gate_json("g", "off", false, &[])),
        (json!({"value": true}), gate_json("g", "on", true, &[])),
        // A percentage is always conditional.
        (json!({"value": "100"}), gate_json("g", "conditional", false, &[(time, json!(100))])),
        (json!({"value": 0, "key": time}), gate_json("g", "conditional", false, &[(time, json!(0))])),
        (
            json!({"value": 5, "key": actors}),
            gate_json("g", "conditional", false, &[(time, json!(0)), (actors, json!(5))]),
        ),
        // A boolean value clears the percentages.
        (json!({"value": true}), gate_json("g", "on", true, &[])),
        (json!({"value": 7, "key": actors}), gate_json("g", "conditional", false, &[(actors, json!(7))])),
        (json!({"value": false}), gate_json("g", "off", false, &[])),
    ] {
        assert_eq!(gate(&root, "g", body.clone()).await, expected, "{body}");
        assert_eq!(root.get("/features").await.expect(200).json(), json!([expected]), "{body}");
    }
    let form = root.post_form("/features/g", &[("value", "25"), ("key", actors)]).await.expect(201);
    assert_eq!(form.json(), gate_json("g", "conditional", false, &[(actors, json!(25))]));
}

async fn set_gate_rejects_invalid_values_and_changes_nothing(server: TestServer) {
    let root = server.root();
    let before = gate(&root, "g", json!({"value": 10})).await;
    for (body, text) in [
        (json!({}), "value is missing"),
        (json!({"value": null}), "value is missing"),
        (json!({"value": ""}), "value is invalid"),
        (json!({"value": "yes"}), "value is invalid"),
        (json!({"value": 1.5}), "value is invalid"),
        (json!({"value": [true]}), "value is invalid"),
        (json!({"value": {"a": 1}}), "value is invalid"),
        (json!({"value": 101}), "value does not have a valid value"),
        (json!({"value": "-1"}), "value does not have a valid value"),
        (json!({"value": i64::MAX}), "value does not have a valid value"),
        (json!({"value": 5, "key": "actors"}), "key does not have a valid value"),
        (json!({"value": true, "user": "a\0"}), "user is invalid"),
        (json!({"value": true, "key": "percentage_of_time", "user": "root"}), "key, user are mutually exclusive"),
        (
            json!({"value": 5, "key": "percentage_of_actors", "feature_group": "x", "project": "a/b"}),
            "key, feature_group are mutually exclusive, key, project are mutually exclusive",
        ),
    ] {
        let response = post(&root, "g", body.clone()).await.expect(400);
        assert_eq!(response.message(), text, "{body}");
    }
    post(&root, &"n".repeat(256), json!({"value": true})).await.expect(400);
    root.post("/features/%00", json!({"value": true})).await.expect(400);
    post(&root, "'; DROP TABLE feature_gates; --", json!({"value": true})).await.expect(201);
    root.delete(&format!("/features/{}", segment("'; DROP TABLE feature_gates; --"))).await.expect(204);
    assert_eq!(root.get("/features").await.expect(200).json(), json!([before]));
}

async fn feature_gates_require_administrator(server: TestServer) {
    let ada = server.create_user("ada").await.client;
    for (client, status) in [(server.anonymous(), 401), (ada, 403)] {
        client.get("/features").await.expect(status);
        client.post("/features/g", json!({"value": true})).await.expect(status);
        client.post("/features/g", json!({})).await.expect(status);
        client.delete("/features/g").await.expect(status);
    }
    assert_eq!(server.root().get("/features").await.expect(200).json(), json!([]));
}

async fn concurrent_gate_updates_keep_all_actors(server: TestServer) {
    let root = server.root();
    let mut ids = Vec::new();
    for number in 0..6 {
        ids.push(server.create_user(&format!("person-{number}")).await.id);
    }
    let all = (0..6).map(|number| gate(&root, "g", json!({"value": true, "user": format!("person-{number}")})));
    futures_util::future::join_all(all).await;
    let list = root.get("/features").await.expect(200).json();
    assert_eq!(list.as_array().expect("a list").len(), 1);
    let mut actors: Vec<String> = serde_json::from_value(list[0]["gates"][1]["value"].clone()).expect("texts");
    let mut expected: Vec<String> = ids.iter().map(|id| format!("User:{id}")).collect();
    actors.sort();
    expected.sort();
    assert_eq!(actors, expected);
}

async fn list_gates_statement_count_is_constant(server: TestServer) {
    let root = server.root();
    let count = async || {
        let before = server.statements();
        root.get("/features?per_page=100").await.expect(200);
        server.statements() - before
    };
    gate(&root, "g", json!({"value": true, "user": "root"})).await;
    let with_one = count().await;
    for number in 0..20 {
        gate(&root, &format!("g-{number}"), json!({"value": true, "user": "root", "feature_group": "x"})).await;
    }
    assert_eq!(count().await, with_one);
}

on_every_database![
    feature_gate_lifecycle,
    set_gate_value_determines_state,
    set_gate_rejects_invalid_values_and_changes_nothing,
    feature_gates_require_administrator,
    concurrent_gate_updates_keep_all_actors,
    list_gates_statement_count_is_constant,
];
