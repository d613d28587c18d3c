mod create;
mod lists;
mod mark_as_done;
mod races;
mod references;

use serde_json::{Value, json};

use crate::support::spaces::{group, project};
use crate::support::{Client, TestServer};

/// Returns the action and the target title of the pending to-do items of the caller, newest first.
pub async fn pending(client: &Client) -> Vec<(String, String)> {
    let all = client.get("/todos?per_page=100").await.expect(200).json();
    let summary = |one: &Value| {
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        (text(&one["action_name"]), text(&one["target"]["title"]))
    };
    all.as_array().expect("a list").iter().map(summary).collect()
}

/// Converts pairs to the form that [`pending`] returns.
fn pairs<const N: usize>(pairs: [(&str, &str); N]) -> Vec<(String, String)> {
    pairs.map(|(one, other)| (one.to_owned(), other.to_owned())).to_vec()
}

/// Creates a public project in a public group of the administrator.
async fn public_project(server: &TestServer, name: &str) -> i64 {
    let root = server.root();
    let of = group(&root, &format!("of-{name}"), json!({"visibility": "public"})).await;
    project(&root, name, json!({"visibility": "public", "namespace_id": of})).await
}

/// Creates a note.
async fn write(client: &Client, on: &str, body: &str) {
    let written = client.post(&format!("{on}/notes"), json!({"body": body})).await;
    written.expect(201);
}

/// Returns the bodies of the notes that the caller can see, oldest first.
async fn notes(client: &Client, on: &str) -> Vec<Value> {
    let all = client.get(&format!("{on}/notes?sort=asc&per_page=100")).await;
    all.expect(200).pluck("body")
}
