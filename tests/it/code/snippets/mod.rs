mod access;
mod delete;
mod files;
mod lifecycle;
mod notes;
mod raw;

use serde_json::{Value, json};

use crate::support::spaces::{group, id, project};
use crate::support::{Client, TestServer};

/// Creates a snippet and returns its ID. `path` is the path of a project, or `""` for a personal snippet; `extra`
/// overrides attributes.
pub async fn snippet(client: &Client, path: &str, title: &str, extra: Value) -> i64 {
    let mut body = json!({"title": title, "file_name": "a.txt", "content": "What it holds"});
    let Value::Object(extra) = extra else { panic!("attributes are an object") };
    body.as_object_mut().expect("an object").extend(extra);
    let created = client.post(&format!("{path}/snippets"), body).await.expect(201);
    id(&created.json())
}

/// Creates a project of the administrator in a public group. Returns its ID and path.
async fn home(server: &TestServer, name: &str, visibility: &str) -> (i64, String) {
    let root = server.root();
    let group = group(&root, &format!("of-{name}"), json!({"visibility": "public"})).await;
    let attributes = json!({"visibility": visibility, "namespace_id": group});
    let id = project(&root, name, attributes).await;
    (id, format!("/projects/{id}"))
}

/// Returns the titles of the snippets in list order.
async fn titles(client: &Client, path: &str) -> Vec<Value> {
    client.get(&format!("{path}/snippets")).await.expect(200).pluck("title")
}
