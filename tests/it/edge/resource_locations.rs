//! The header `Location` of responses to requests that create a resource. The test client checks its presence.

use serde_json::{Value, json};

use crate::support::{Client, TestServer, on_every_database, spaces};

/// Creates a resource, and returns it with the path of its location below `/api/v4`.
async fn create(root: &Client, server: &TestServer, path: &str, body: Value) -> (Value, String) {
    let created = root.post(path, body).await.expect(201);
    let location = created.header("location").to_owned();
    let path = location.strip_prefix(&format!("{}/api/v4", server.base)).expect("an absolute URL of the server");
    (created.json(), path.to_owned())
}

async fn location_returns_the_created_resource(server: TestServer) {
    let root = server.root();
    let project = spaces::project(&root, "located", json!({ "initialize_with_readme": true })).await;
    let by_id = format!("/projects/{project}");
    for (path, body, key, end) in [
        ("/projects".to_owned(), json!({ "name": "other" }), "id", None),
        ("/groups".to_owned(), json!({ "name": "g", "path": "g" }), "id", None),
        (format!("{by_id}/issues"), json!({ "title": "t" }), "iid", Some("1")),
        (format!("{by_id}/issues/1/notes"), json!({ "body": "b" }), "id", None),
        ("/projects/root%2Flocated/labels/".to_owned(), json!({ "name": "a/b ä", "color": "#000000" }), "id", None),
        (format!("{by_id}/repository/branches"), json!({ "branch": "a/b", "ref": "main" }), "name", Some("a%2Fb")),
        (format!("{by_id}/repository/tags"), json!({ "tag_name": "v/1", "ref": "main" }), "name", Some("v%2F1")),
        (format!("{by_id}/variables"), json!({ "key": "K", "value": "v" }), "key", Some("K")),
    ] {
        let (created, location) = create(&root, &server, &path, body).await;
        let end = end.map_or_else(|| created[key].to_string(), str::to_owned);
        assert_eq!(location, format!("{}/{end}", path.trim_end_matches('/')));
        assert_eq!(root.get(&location).await.expect(200).json()[key], created[key], "{location}");
    }
}

async fn location_has_the_path_of_the_operation_that_reads_the_resource(server: TestServer) {
    let root = server.root();
    let project = spaces::project(&root, "located", json!({ "initialize_with_readme": true })).await;
    let by_id = format!("/projects/{project}");
    let head = root.get(&format!("{by_id}/repository/commits/main")).await.expect(200).json()["id"].clone();
    let revert = format!("{by_id}/repository/commits/{}/revert", head.as_str().expect("a commit"));
    let commit = format!("{by_id}/repository/commits");
    let pipelines = format!("{by_id}/pipelines");
    let config = json!({
        "branch": "main", "commit_message": "ci",
        "actions": [{ "action": "create", "file_path": ".gitlab-ci.yml", "content": "job: {script: [true]}" }],
    });
    root.post(&commit, config).await.expect(201);
    for (path, body, parent) in [
        (format!("{by_id}/pipeline"), json!({ "ref": "main" }), pipelines.as_str()),
        (revert, json!({ "branch": "main" }), &commit),
        ("/projects/root%2Flocated/fork".to_owned(), json!({ "path": "copy", "name": "copy" }), "/projects"),
    ] {
        let (created, location) = create(&root, &server, &path, body).await;
        let id = created["id"].as_str().map_or_else(|| created["id"].to_string(), str::to_owned);
        assert_eq!(location, format!("{parent}/{id}"));
        assert_eq!(root.get(&location).await.expect(200).json()["id"], created["id"], "{location}");
    }
    let rule = format!("{by_id}/push_rule");
    let (created, location) = create(&root, &server, &rule, json!({ "deny_delete_tag": true })).await;
    assert_eq!(location, rule);
    assert_eq!(root.get(&location).await.expect(200).json(), created);
}

on_every_database![
    location_returns_the_created_resource,
    location_has_the_path_of_the_operation_that_reads_the_resource,
];
