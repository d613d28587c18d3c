mod done;
mod lists;
mod making;
mod races;
mod references;

use serde_json::{Value, json};

use crate::support::places::{group, project};
use crate::support::{Client, TestServer};

/// What waits for somebody, the newest first: why, and the title of what it is about.
pub async fn waiting(client: &Client) -> Vec<(String, String)> {
    let all = client.get("/todos?per_page=100").await.expect(200).json();
    let said = |one: &Value| {
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        (text(&one["action_name"]), text(&one["target"]["title"]))
    };
    all.as_array().expect("a list").iter().map(said).collect()
}

/// Pairs as [`waiting`] gives them.
fn pairs<const N: usize>(pairs: [(&str, &str); N]) -> Vec<(String, String)> {
    pairs.map(|(one, other)| (one.to_owned(), other.to_owned())).to_vec()
}

/// A public project in a public group of the administrator's, which has its name.
async fn public_project(server: &TestServer, name: &str) -> i64 {
    let root = server.root();
    let of = group(&root, &format!("of-{name}"), json!({"visibility": "public"})).await;
    project(&root, name, json!({"visibility": "public", "namespace_id": of})).await
}

/// Writes a note.
async fn write(client: &Client, on: &str, body: &str) {
    let written = client.post(&format!("{on}/notes"), json!({"body": body})).await;
    written.expect(201);
}

/// What the notes on something say, the oldest first, as far as somebody sees them.
async fn notes(client: &Client, on: &str) -> Vec<Value> {
    let all = client.get(&format!("{on}/notes?sort=asc&per_page=100")).await;
    all.expect(200).pluck("body")
}
