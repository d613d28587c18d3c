//! Repositories of the projects of groups.

use serde_json::json;

use super::image;
use crate::support::spaces::{group, join, project};
use crate::support::{TestServer, on_every_database};

async fn list_group_repositories_includes_subgroups(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({ "visibility": "public" })).await;
    let low = group(&root, "low", json!({ "parent_id": top })).await;
    let sibling = group(&root, "beside", json!({})).await;
    let mut ids = Vec::new();
    let mut projects = Vec::new();
    for (namespace, name) in [(low, "a"), (top, "b"), (sibling, "c"), (low, "off"), (top, "old")] {
        let created = project(&root, name, json!({ "namespace_id": namespace })).await;
        ids.push(image(&server, created, "web", "v1", None).await);
        projects.push(created);
    }
    ids.push(image(&server, projects[0], "", "v2", None).await);
    root.put(&format!("/projects/{}", projects[3]), json!({ "container_registry_enabled": false })).await.expect(200);
    root.post(&format!("/projects/{}/archive", projects[4]), json!({})).await.expect(201);
    let all = format!("/groups/{top}/registry/repositories");
    let listed = root.get(&format!("{all}?tags=true&tags_count=true")).await.expect(200);
    assert_eq!(listed.pluck("id"), [json!(ids[0]), json!(ids[1]), json!(ids[4]), json!(ids[5])]);
    assert_eq!(listed.header("x-total"), "4");
    let host = server.base.strip_prefix("http://").expect("an address");
    let first = listed.json()[0].clone();
    assert_eq!(
        first,
        json!({
            "id": ids[0], "name": "web", "path": "top/low/a/web", "project_id": projects[0],
            "location": format!("{host}/top/low/a/web"), "created_at": first["created_at"], "tags_count": 1,
            "tags": [{ "name": "v1", "path": "top/low/a/web:v1", "location": format!("{host}/top/low/a/web:v1") }],
        })
    );
    assert_eq!(root.get(&format!("{all}?name=")).await.expect(200).pluck("id"), [json!(ids[5])]);
    assert_eq!(root.get(&format!("{all}?name=web&per_page=1&page=2")).await.expect(200).pluck("id"), [json!(ids[1])]);
    assert_eq!(
        root.get(&format!("/groups/{low}/registry/repositories")).await.expect(200).pluck("id"),
        [json!(ids[0]), json!(ids[5])]
    );
    root.delete(&format!("/projects/{}", projects[1])).await.expect(202);
    assert_eq!(root.get(&format!("{all}?name=web")).await.expect(200).pluck("id"), [json!(ids[0]), json!(ids[4])]);
}

async fn list_group_repositories_requires_group_reporter(server: TestServer) {
    let root = server.root();
    let open = group(&root, "open", json!({ "visibility": "public" })).await;
    let closed = group(&root, "closed", json!({})).await;
    let within = project(&root, "within", json!({ "namespace_id": closed })).await;
    let id = image(&server, within, "web", "v1", None).await;
    let reporter = server.create_user("reporter").await;
    let guest = server.create_user("guest").await;
    let maintainer = server.create_user("maintainer").await;
    for base_path in [format!("/groups/{open}"), format!("/groups/{closed}")] {
        join(&root, &base_path, reporter.id, 20).await;
        join(&root, &base_path, guest.id, 10).await;
    }
    // A member of only a project of the group sees the group, but not its repositories.
    join(&root, &format!("/projects/{within}"), maintainer.id, 40).await;
    let (open, closed) =
        (format!("/groups/{open}/registry/repositories"), format!("/groups/{closed}/registry/repositories"));
    assert_eq!(reporter.client.get(&closed).await.expect(200).pluck("id"), [json!(id)]);
    for (client, path, status) in [
        (&reporter.client, &open, 200),
        (&guest.client, &open, 403),
        (&guest.client, &closed, 403),
        (&maintainer.client, &open, 403),
        (&maintainer.client, &closed, 403),
        (&server.create_user("stranger").await.client, &closed, 404),
        (&server.anonymous(), &open, 401),
        (&server.anonymous(), &closed, 401),
        (&root, &closed, 200),
    ] {
        assert_eq!(client.get(path).await.status, status, "{path}");
    }
    guest.client.get(&format!("{open}?tags=perhaps")).await.expect(403);
    reporter.client.get(&format!("{open}?tags=perhaps")).await.expect(400);
    root.get("/groups/none/registry/repositories").await.expect(404);
}

on_every_database![list_group_repositories_includes_subgroups, list_group_repositories_requires_group_reporter,];
