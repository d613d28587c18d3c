//! Creating projects for other users.

use sea_orm::ConnectionTrait;
use serde_json::json;

use crate::support::spaces::{group, id, join};
use crate::support::{TestServer, on_every_database};

async fn administrator_creates_a_project_of_another_user(server: TestServer) {
    let root = server.root();
    let ada = server.create_user("ada").await;
    let path = format!("/projects/user/{}", ada.id);
    let body = json!({
        "name": "Foo Project", "description": "Steam", "initialize_with_readme": true, "topics": "a,b",
        "merge_method": "ff", "visibility": "internal",
    });
    let created = root.post(&path, body).await.expect(201).json();
    for (field, value) in [
        ("path_with_namespace", json!("ada/foo-project")),
        ("creator_id", json!(ada.id)),
        ("description", json!("Steam")),
        ("topics", json!(["a", "b"])),
        ("merge_method", json!("ff")),
        ("visibility", json!("internal")),
        ("default_branch", json!("main")),
        ("import_status", json!("none")),
    ] {
        assert_eq!(created[field], value, "{field}");
    }
    assert_eq!(created["owner"]["username"], "ada");
    let project = format!("/projects/{}", id(&created));
    let members = ada.client.get(&format!("{project}/members")).await.expect(200).json();
    assert_eq!((members[0]["id"].as_i64(), members[0]["access_level"].as_i64()), (Some(ada.id), Some(40)));
    assert_eq!(members.as_array().map(Vec::len), Some(1));
    ada.client.put(&project, json!({ "name": "Bar" })).await.expect(200);
    let commit = ada.client.get(&format!("{project}/repository/commits/main")).await.expect(200).json();
    assert_eq!(commit["author_name"], "Name of ada");
    let events = root.get("/audit_events").await.expect(200).json();
    let mut events = events.as_array().expect("events").iter();
    let event = events.find(|event| event["details"]["event_name"] == "project_created").expect("an event");
    assert_eq!(event["author_id"], root.get("/user").await.expect(200).json()["id"]);
    // The username works too, and a restricted visibility is allowed to the administrator.
    root.put("/application/settings", json!({ "restricted_visibility_levels": ["public"] })).await.expect(200);
    root.post("/projects/user/ADA", json!({ "name": "x", "visibility": "public" })).await.expect(201);
}

async fn create_project_for_user_applies_the_permissions_of_the_user(server: TestServer) {
    let root = server.root();
    let ada = server.create_user("ada").await;
    let path = format!("/projects/user/{}", ada.id);
    let space = group(&root, "space", json!({})).await;
    let other = server.create_user("bob").await;
    let of_other = root.get("/namespaces/bob").await.expect(200).json()["id"].clone();
    for namespace in [json!(space), of_other, json!(999_999)] {
        let rejected = root.post(&path, json!({ "name": "x", "namespace_id": namespace })).await.expect(400);
        assert_eq!(rejected.json()["message"], json!({ "namespace": ["is not valid"] }), "{namespace}");
    }
    join(&root, &format!("/groups/{space}"), ada.id, 30).await;
    let created = root.post(&path, json!({ "name": "x", "namespace_id": space })).await.expect(201).json();
    assert_eq!((&created["path_with_namespace"], &created["creator_id"]), (&json!("space/x"), &json!(ada.id)));
    assert_eq!(root.post(&path, json!({ "path": "y" })).await.expect(400).message(), "name is missing");
    let taken = root.post(&path, json!({ "name": "x", "namespace_id": space })).await.expect(400).json();
    assert_eq!(taken["message"]["path"], json!(["has already been taken"]));
    let unknown = root.post("/projects/user/999999", json!({ "name": "x" })).await.expect(404);
    assert_eq!(unknown.message(), "404 User Not Found");
    server.anonymous().post(&path, json!({ "name": "z" })).await.expect(401);
    for client in [&ada.client, &other.client] {
        client.post(&path, json!({ "name": "z" })).await.expect(403);
    }
    let sql = format!("UPDATE users SET projects_limit = 0 WHERE id = {}", ada.id);
    server.backend.database.write().execute_unprepared(&sql).await.expect("an update");
    let rejected = root.post(&path, json!({ "name": "z" })).await.expect(403);
    assert!(rejected.message().contains("Your project limit is 0 projects!"), "{}", rejected.message());
}

on_every_database![
    administrator_creates_a_project_of_another_user,
    create_project_for_user_applies_the_permissions_of_the_user,
];
