//! Releases of projects, their links and their evidence.

mod access;
mod evidence;
mod group_releases;
mod levels;
mod lifecycle;
mod links;
mod lists;
mod milestones;
mod permalinks;
mod webhooks;

use serde_json::{Value, json};

use crate::support::Client;

/// Creates a release of a tag in `/projects/:id`, and the tag on `main` if it does not exist. Returns the release.
pub async fn release(client: &Client, path: &str, tag: &str, extra: Value) -> Value {
    let mut body = json!({ "tag_name": tag, "ref": "main" });
    let fields = body.as_object_mut().expect("an object");
    fields.extend(extra.as_object().expect("an object").clone());
    client.post(&format!("{path}/releases"), body).await.expect(201).json()
}
