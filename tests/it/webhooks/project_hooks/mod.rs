//! Webhooks of projects.

mod body_templates;
mod custom_headers;
mod delivery;
mod log;
mod payloads;
mod receivers;
mod secrets;
mod settings;
mod signatures;
mod test_delivery;
mod url_variables;

use serde_json::{Value, json};

use crate::support::Client;
use crate::support::spaces::id;

/// Creates a webhook of a project with additional attributes and returns its ID.
async fn hook(client: &Client, project: i64, url: &str, extra: Value) -> i64 {
    let mut body = json!({ "url": url });
    let Value::Object(extra) = extra else { panic!("an object") };
    body.as_object_mut().expect("an object").extend(extra);
    id(&client.post(&format!("/projects/{project}/hooks"), body).await.expect(201).json())
}

/// Commits a file through the API and returns the commit ID.
async fn commit(client: &Client, project: i64, branch: &str, file: &str) -> String {
    let body = json!({
        "branch": branch, "commit_message": format!("Add {file}\n\nFor a test."),
        "actions": [{ "action": "create", "file_path": file, "content": "x" }],
    });
    let created = client.post(&format!("/projects/{project}/repository/commits"), body).await.expect(201);
    created.json()["id"].as_str().expect("an id").to_owned()
}
