mod access;
mod files;
mod life;
mod notes;
mod raw;
mod removal;

use serde_json::{Value, json};

use crate::support::places::{group, id, project};
use crate::support::{Client, TestServer};

/// Makes a snippet in a place, `""` for the caller's own, and gives its number; `extra` adds and replaces attributes.
pub async fn snippet(client: &Client, place: &str, title: &str, extra: Value) -> i64 {
    let mut body = json!({"title": title, "file_name": "a.txt", "content": "What it holds"});
    let Value::Object(extra) = extra else { panic!("attributes are an object") };
    body.as_object_mut().expect("an object").extend(extra);
    let made = client.post(&format!("{place}/snippets"), body).await.expect(201);
    id(&made.json())
}

/// The path of a project of the administrator's in a public group.
async fn home(server: &TestServer, name: &str, visibility: &str) -> (i64, String) {
    let root = server.root();
    let group = group(&root, &format!("of-{name}"), json!({"visibility": "public"})).await;
    let wish = json!({"visibility": visibility, "namespace_id": group});
    let id = project(&root, name, wish).await;
    (id, format!("/projects/{id}"))
}

/// The titles of a list, in its order.
async fn titles(client: &Client, place: &str) -> Vec<Value> {
    client.get(&format!("{place}/snippets")).await.expect(200).pluck("title")
}
