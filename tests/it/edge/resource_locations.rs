//! The header `Location` of responses to requests that create a resource. The test client checks its presence.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{ApiResponse, Client, TestServer, on_every_database, spaces};

const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";

/// Creates a resource, and returns it with the path of its location below `/api/v4`.
async fn create(root: &Client, server: &TestServer, path: &str, body: Value) -> (Value, String) {
    let created = root.post(path, body).await.expect(201);
    let path = located(&created, server);
    (created.json(), path)
}

/// Returns the path of the location of a response below `/api/v4`.
fn located(created: &ApiResponse, server: &TestServer) -> String {
    let location = created.header("location");
    location.strip_prefix(&format!("{}/api/v4", server.base)).expect("an absolute URL of the server").to_owned()
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

async fn location_of_a_file_has_its_branch(server: TestServer) {
    let root = server.root();
    let project = spaces::project(&root, "located", json!({ "initialize_with_readme": true })).await;
    let file = format!("/projects/{project}/repository/files/docs%2Fa%20b.txt");
    let body = json!({ "branch": "topic/x&y", "start_branch": "main", "content": "text", "commit_message": "Add" });
    let (created, location) = create(&root, &server, &file, body).await;
    assert_eq!(created["branch"], "topic/x&y");
    assert_eq!(location, format!("{file}?ref=topic%2Fx%26y"));
    assert_eq!(root.get(&location).await.expect(200).json()["file_path"], "docs/a b.txt");
}

async fn location_of_an_uploaded_package_file_is_its_download(server: TestServer) {
    let root = server.root();
    let project = spaces::project(&root, "located", json!({})).await;
    let file = format!("/projects/{project}/packages/generic/my%2Bpackage/1.0/a%2Bb.txt");
    for query in ["", "?select=package_file"] {
        let request = root.request(Method::PUT, &format!("{file}{query}")).body("content");
        let location = located(&root.send(request).await.expect(201), &server);
        assert_eq!(location, file);
        assert_eq!(root.get(&location).await.expect(200).text(), "content");
    }
}

async fn location_is_in_another_project(server: TestServer) {
    let root = server.root();
    let group = spaces::group(&root, "engines", json!({})).await;
    let inside = json!({ "namespace_id": group, "initialize_with_readme": true });
    let (one, other) = (spaces::project(&root, "one", inside).await, spaces::project(&root, "other", json!({})).await);
    let (by_one, by_other) = (format!("/projects/{one}"), format!("/projects/{other}"));
    let key = json!({ "title": "Deployment", "key": KEY });
    let key = root.post(&format!("{by_one}/deploy_keys"), key).await.expect(201).json()["id"].clone();
    root.post(&format!("{by_one}/issues"), json!({ "title": "Move this" })).await.expect(201);
    for (path, body, parent, attribute) in [
        (format!("{by_other}/deploy_keys/{key}/enable"), json!({}), format!("{by_other}/deploy_keys"), "id"),
        (format!("{by_one}/issues/1/move"), json!({ "to_project_id": other }), format!("{by_other}/issues"), "iid"),
    ] {
        let (created, location) = create(&root, &server, &path, body).await;
        assert_eq!(location, format!("{parent}/{}", created[attribute]), "{path}");
        assert_eq!(root.get(&location).await.expect(200).json()["id"], created["id"], "{path}");
    }
}

async fn location_of_a_merge_request_pipeline_is_in_the_source_project(server: TestServer) {
    let root = server.root();
    let target = spaces::project(&root, "target", json!({ "initialize_with_readme": true })).await;
    let copy = json!({ "path": "copy", "name": "copy" });
    let source = root.post(&format!("/projects/{target}/fork"), copy).await.expect(201).json()["id"].clone();
    server.finish_jobs().await;
    let file = json!({ "branch": "topic", "start_branch": "main", "content": "text", "commit_message": "Add" });
    root.post(&format!("/projects/{source}/repository/files/a.txt"), file).await.expect(201);
    let merge_request = json!({
        "source_branch": "topic", "target_branch": "main", "target_project_id": target, "title": "Add a file",
    });
    root.post(&format!("/projects/{source}/merge_requests"), merge_request).await.expect(201);
    let path = format!("/projects/{target}/merge_requests/1/pipelines");
    let (created, location) = create(&root, &server, &path, json!({})).await;
    assert_eq!(created["project_id"], source);
    assert_eq!(location, format!("/projects/{source}/pipelines/{}", created["id"]));
    assert_eq!(root.get(&location).await.expect(200).json(), created);
}

on_every_database![
    location_of_a_file_has_its_branch,
    location_of_an_uploaded_package_file_is_its_download,
    location_is_in_another_project,
    location_of_a_merge_request_pipeline_is_in_the_source_project,
    location_returns_the_created_resource,
    location_has_the_path_of_the_operation_that_reads_the_resource,
];
