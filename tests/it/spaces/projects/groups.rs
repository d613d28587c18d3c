//! Groups of a project.

use serde_json::{Value, json};
use storage::entities::AccessLevel;

use crate::support::spaces::{group, project};
use crate::support::{Client, TestServer, on_every_database};

/// Returns the full paths of the groups of a project.
async fn paths(client: &Client, project: i64, query: &str) -> Vec<Value> {
    client.get(&format!("/projects/{project}/groups?{query}")).await.expect(200).pluck("full_path")
}

async fn groups_of_project_are_its_ancestors_and_shares(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({ "visibility": "public" })).await;
    let sub = group(&root, "sub", json!({ "parent_id": top, "visibility": "public" })).await;
    let work = project(&root, "work", json!({ "namespace_id": sub, "visibility": "public" })).await;
    let found = root.get(&format!("/projects/{work}/groups")).await.expect(200).json();
    let expected = json!({
        "id": sub, "name": "sub", "avatar_url": null, "web_url": format!("{}/groups/top/sub", server.base),
        "full_name": "top / sub", "full_path": "top/sub",
    });
    assert_eq!((found.as_array().map(Vec::len), &found[1]), (Some(2), &expected));
    for (path, level) in [("readers", 20), ("writers", 30)] {
        let shared = group(&root, path, json!({ "visibility": "public" })).await;
        let body = json!({ "group_id": shared, "group_access": level });
        root.post(&format!("/projects/{work}/share"), body).await.expect(201);
    }
    let past = group(&root, "past", json!({ "visibility": "public" })).await;
    let body = json!({ "group_id": past, "group_access": 30, "expires_at": "2020-01-01" });
    root.post(&format!("/projects/{work}/share"), body).await.expect(201);
    for (query, expected) in [
        ("", &["top", "top/sub"][..]),
        ("with_shared=true", &["top", "top/sub", "readers", "writers"]),
        ("with_shared=true&shared_min_access_level=30", &["top", "top/sub", "writers"]),
        ("shared_min_access_level=30", &["top", "top/sub"]),
        ("search=SUB", &["top/sub"]),
        ("search=%25", &[]),
        (&format!("with_shared=true&skip_groups[]={top}"), &["top/sub", "readers", "writers"]),
        ("with_shared=true&per_page=2&page=2", &["readers", "writers"]),
    ] {
        assert_eq!(paths(&root, work, query).await, expected, "{query}");
        assert_eq!(paths(&server.anonymous(), work, query).await, expected, "{query}");
    }
    root.get(&format!("/projects/{work}/groups?shared_min_access_level=31")).await.expect(400);
}

async fn hidden_groups_of_project_are_omitted(server: TestServer) {
    let (root, ann) = (server.root(), server.create_user("ann").await);
    let personal = project(&root, "personal", json!({ "visibility": "public" })).await;
    assert_eq!(paths(&root, personal, "").await, [] as [Value; 0]);
    let hidden = group(&root, "hidden", json!({})).await;
    let body = json!({ "group_id": hidden, "group_access": 20 });
    root.post(&format!("/projects/{personal}/share"), body).await.expect(201);
    assert_eq!(paths(&root, personal, "with_shared=true").await, ["hidden"]);
    assert_eq!(paths(&ann.client, personal, "with_shared=true").await, [] as [Value; 0]);
    // A member of a project in a private group sees the group.
    let inside = project(&root, "inside", json!({ "namespace_id": hidden })).await;
    ann.client.get(&format!("/projects/{inside}/groups")).await.expect(404);
    server.insert_member(inside, ann.id, AccessLevel::Guest).await;
    assert_eq!(paths(&ann.client, inside, "").await, ["hidden"]);
    server.anonymous().get(&format!("/projects/{inside}/groups")).await.expect(404);
}

async fn statements_of_groups_of_project_do_not_depend_on_their_number(server: TestServer) {
    let root = server.root();
    let mut parent = group(&root, "g", json!({})).await;
    let first = project(&root, "first", json!({ "namespace_id": parent })).await;
    for number in 0..5 {
        parent = group(&root, &format!("g{number}"), json!({ "parent_id": parent })).await;
    }
    let last = project(&root, "last", json!({ "namespace_id": parent })).await;
    let cost = async |project: i64| {
        paths(&root, project, "").await;
        let before = server.statements();
        paths(&root, project, "with_shared=true").await;
        server.statements() - before
    };
    let one = cost(first).await;
    assert_eq!(cost(last).await, one);
    assert!(one <= 4, "{one}");
}

on_every_database![
    groups_of_project_are_its_ancestors_and_shares,
    hidden_groups_of_project_are_omitted,
    statements_of_groups_of_project_do_not_depend_on_their_number,
];
