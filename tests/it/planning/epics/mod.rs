mod access;
mod delete;
mod epic_issues;
mod lifecycle;
mod lists;
mod notes;

use serde_json::{Value, json};

use crate::support::spaces::{self, id};
use crate::support::{Client, TestServer};

/// Creates an epic in a group and returns its IID and ID. `extra` adds and replaces attributes.
pub async fn epic(client: &Client, group: i64, title: &str, extra: Value) -> (i64, i64) {
    let mut body = json!({"title": title});
    let Value::Object(extra) = extra else { panic!("attributes are an object") };
    body.as_object_mut().expect("an object").extend(extra);
    let created = client.post(&format!("/groups/{group}/epics"), body).await;
    let created = created.expect(201).json();
    (created["iid"].as_i64().expect("a number"), id(&created))
}

/// Creates a group of the administrator, public by default.
async fn group(server: &TestServer, path: &str, extra: Value) -> i64 {
    let mut body = json!({"visibility": "public"});
    let Value::Object(extra) = extra else { panic!("attributes are an object") };
    body.as_object_mut().expect("an object").extend(extra);
    spaces::group(&server.root(), path, body).await
}

/// Returns the titles of a list in its order.
async fn titles(client: &Client, path: &str) -> Vec<Value> {
    client.get(path).await.expect(200).pluck("title")
}

/// Adds a user to a group.
async fn join(server: &TestServer, group: i64, user: i64, level: i64) {
    spaces::join(&server.root(), &format!("/groups/{group}"), user, level).await;
}
