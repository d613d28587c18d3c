mod access;
mod lifecycle;
mod lists;
mod races;
mod webhooks;

use serde_json::{Value, json};

use crate::planning::issues::open;
use crate::support::spaces::{group, project};
use crate::support::{Client, TestServer};

/// Creates a public project of the administrator with an issue and returns its ID and the path of the issue.
async fn issue(server: &TestServer, name: &str) -> (i64, String) {
    let root = server.root();
    let group = group(&root, &format!("of-{name}"), json!({"visibility": "public"})).await;
    let public = json!({"visibility": "public", "namespace_id": group});
    let id = project(&root, name, public).await;
    let iid = open(&root, id, json!({"title": "Talk"})).await;
    (id, format!("/projects/{id}/issues/{iid}"))
}

/// Creates a note on a noteable and returns its path.
pub async fn write(client: &Client, path: &str, body: Value) -> String {
    let created = client.post(&format!("{path}/notes"), body).await.expect(201);
    format!("{path}/notes/{}", created.json()["id"])
}

/// Returns the bodies of the notes of a list, in its order.
async fn bodies(client: &Client, path: &str) -> Vec<Value> {
    client.get(path).await.expect(200).pluck("body")
}
