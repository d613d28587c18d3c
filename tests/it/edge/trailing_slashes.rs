//! Paths with a trailing slash, which are the same resources as without it.

use reqwest::Method;
use serde_json::json;

use crate::support::{TestServer, on_every_database, spaces};

async fn reads_with_trailing_slash_return_the_same_resource(server: TestServer) {
    let root = server.root();
    let project = spaces::project(&root, "slash", json!({})).await;
    for path in [
        "/user".to_owned(),
        "/projects".to_owned(),
        format!("/projects/{project}"),
        "/projects/root%2Fslash".to_owned(),
        format!("/projects/{project}/members/all"),
        "/templates/licenses".to_owned(),
    ] {
        let expected = root.get(&path).await.expect(200).json();
        assert_eq!(root.get(&format!("{path}/")).await.expect(200).json(), expected, "{path}");
        root.head(&format!("{path}/")).await.expect(200);
    }
}

async fn writes_with_trailing_slash_are_not_redirected(server: TestServer) {
    let root = server.root();
    let created = root.post("/projects/", json!({"name": "written"})).await.expect(201).json();
    let path = format!("/projects/{}/", created["id"]);
    let updated = root.put(&path, json!({"description": "new"})).await.expect(200).json();
    assert_eq!(updated["description"], "new");
    root.post(&format!("{path}star/"), json!({})).await.expect(201);
    root.delete(&path).await.expect(202);
}

async fn list_with_trailing_slash_has_pages(server: TestServer) {
    let root = server.root();
    for name in ["one", "two"] {
        spaces::project(&root, name, json!({})).await;
    }
    let page = root.get("/projects/?per_page=1&order_by=name&sort=asc").await.expect(200);
    assert_eq!(page.pluck("name"), ["one"]);
    let link = page.header("link");
    assert!(link.contains("page=2") && link.contains("rel=\"next\""), "{link}");
}

async fn wrong_method_and_unknown_path_with_trailing_slash(server: TestServer) {
    let root = server.root();
    let response = root.send(root.request(Method::PATCH, "/version/")).await.expect(405);
    assert_eq!(response.header("allow"), "GET, HEAD");
    for path in ["/nothing/", "/projects//", "/projects/404/"] {
        root.get(path).await.expect(404);
    }
}

on_every_database![
    reads_with_trailing_slash_return_the_same_resource,
    writes_with_trailing_slash_are_not_redirected,
    list_with_trailing_slash_has_pages,
    wrong_method_and_unknown_path_with_trailing_slash,
];
