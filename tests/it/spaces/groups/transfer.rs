//! Transferring groups within the tree, and projects into groups.

use serde_json::{Value, json};

use crate::support::spaces::{group, join, project};
use crate::support::{TestServer, on_every_database};

async fn transfer_group_moves_descendants_and_changes_access(server: TestServer) {
    let root = server.root();
    let old = group(&root, "old", json!({})).await;
    let new = group(&root, "fresh", json!({})).await;
    let home = group(&root, "home", json!({"parent_id": new})).await;
    let moved = group(&root, "moved", json!({"parent_id": old})).await;
    let low = group(&root, "low", json!({"parent_id": moved})).await;
    let work = project(&root, "work", json!({"namespace_id": low})).await;
    let (ada, bob) = (server.create_user("ada").await, server.create_user("bob").await);
    join(&root, &format!("/groups/{old}"), ada.id, 30).await;
    join(&root, &format!("/groups/{new}"), bob.id, 30).await;
    ada.client.get(&format!("/projects/{work}")).await.expect(200);
    bob.client.get(&format!("/projects/{work}")).await.expect(404);
    let response = root.post(&format!("/groups/{moved}/transfer"), json!({"group_id": home})).await.expect(201).json();
    assert_eq!(
        (&response["full_path"], &response["full_name"], &response["parent_id"]),
        (&json!("fresh/home/moved"), &json!("fresh / home / moved"), &json!(home))
    );
    let transferred = bob.client.get(&format!("/projects/{work}")).await.expect(200).json();
    assert_eq!(
        (&transferred["path_with_namespace"], &transferred["name_with_namespace"]),
        (&json!("fresh/home/moved/low/work"), &json!("fresh / home / moved / low / work"))
    );
    ada.client.get(&format!("/projects/{work}")).await.expect(404);
    let below = root.get(&format!("/groups/{new}/descendant_groups")).await.expect(200).pluck("path");
    assert_eq!(below, ["home", "low", "moved"]);
    assert_eq!(root.get(&format!("/groups/{old}/descendant_groups")).await.expect(200).json(), json!([]));
    // To the top level, and back to its first parent.
    let top = root.post(&format!("/groups/{moved}/transfer"), json!({})).await.expect(201).json();
    assert_eq!((&top["full_path"], &top["parent_id"]), (&json!("moved"), &Value::Null));
    bob.client.get(&format!("/projects/{work}")).await.expect(404);
    root.post(&format!("/groups/{moved}/transfer"), json!({"group_id": old})).await.expect(201);
    ada.client.get("/projects/old%2Fmoved%2Flow%2Fwork").await.expect(200);
}

async fn transfer_group_rejects_invalid_targets(server: TestServer) {
    let root = server.root();
    let outer = group(&root, "outer", json!({})).await;
    let inner = group(&root, "inner", json!({"parent_id": outer})).await;
    let low = group(&root, "low", json!({"parent_id": inner})).await;
    let open = group(&root, "open", json!({"visibility": "public"})).await;
    let other = group(&root, "other", json!({})).await;
    let twin = group(&root, "twin", json!({"parent_id": other, "name": "open"})).await;
    let named = group(&root, "admin", json!({"parent_id": other})).await;
    project(&root, "inner", json!({"namespace_id": other})).await;
    let failure = async |id: i64, to: Value| {
        let response = root.post(&format!("/groups/{id}/transfer"), json!({"group_id": to})).await.expect(400);
        response.json()["message"].clone()
    };
    let (inside, taken) = ("must not be the group itself or one of its subgroups", "has already been taken");
    assert_eq!(failure(outer, json!(outer)).await, json!({"group_id": [inside]}));
    assert_eq!(failure(outer, json!(low)).await, json!({"group_id": [inside]}));
    assert_eq!(failure(inner, json!(outer)).await, json!({"group_id": ["is already the parent of the group"]}));
    assert_eq!(failure(outer, Value::Null).await, json!({"group_id": ["is already the parent of the group"]}));
    assert_eq!(failure(inner, json!(other)).await, json!({"path": [taken]}));
    assert_eq!(failure(twin, Value::Null).await, json!({"name": [taken]}));
    assert_eq!(failure(named, Value::Null).await, json!({"path": ["is a reserved name"]}));
    assert_eq!(
        failure(open, json!(outer)).await,
        json!({"visibility_level":
        ["public is not allowed since the parent group has a private visibility."]})
    );
    let response = root.post(&format!("/groups/{inner}/transfer"), json!({"group_id": 999_999})).await.expect(404);
    assert_eq!(response.message(), "404 Group Not Found");
    let mut parent = other;
    for depth in 2..=18 {
        parent = group(&root, &format!("d{depth}"), json!({"parent_id": parent})).await;
    }
    // Two levels fit below eighteen, three do not.
    assert_eq!(failure(outer, json!(parent)).await, json!({"group_id": ["has too deep level of nesting"]}));
    root.post(&format!("/groups/{inner}/transfer"), json!({"group_id": parent})).await.expect(201);
}

async fn transfer_group_requires_owner_and_creation_right_in_target(server: TestServer) {
    let root = server.root();
    let home = group(&root, "home", json!({"subgroup_creation_level": "owner"})).await;
    let away = group(&root, "away", json!({"visibility": "public"})).await;
    let (ada, eve) = (server.create_user("ada").await, server.create_user("eve").await);
    let mine = group(&ada.client, "mine", json!({})).await;
    let path = format!("/groups/{mine}/transfer");
    ada.client.post(&path, json!({"group_id": home})).await.expect(404);
    ada.client.post(&path, json!({"group_id": away})).await.expect(403);
    join(&root, &format!("/groups/{home}"), ada.id, 40).await;
    ada.client.post(&path, json!({"group_id": home})).await.expect(403);
    join(&ada.client, &format!("/groups/{mine}"), eve.id, 40).await;
    eve.client.post(&path, json!({})).await.expect(403);
    root.put(&format!("/groups/{home}"), json!({"subgroup_creation_level": "maintainer"})).await.expect(200);
    ada.client.post(&path, json!({"group_id": home})).await.expect(201);
}

async fn transfer_to_top_level_adds_owner_if_missing(server: TestServer) {
    let root = server.root();
    let ada = server.create_user("ada").await;
    let outer = group(&ada.client, "outer", json!({})).await;
    let inner = server.insert_group("outer/inner", storage::entities::Visibility::Private).await;
    ada.client.get(&format!("/groups/{inner}/members/{}", ada.id)).await.expect(404);
    ada.client.post(&format!("/groups/{inner}/transfer"), json!({})).await.expect(201);
    let member = ada.client.get(&format!("/groups/{inner}/members/{}", ada.id)).await.expect(200).json();
    assert_eq!(member["access_level"], 50);
    root.get(&format!("/groups/{outer}")).await.expect(200);
}

async fn concurrent_transfers_into_each_other_are_rejected(server: TestServer) {
    let root = server.root();
    let one = group(&root, "one", json!({})).await;
    let two = group(&root, "two", json!({})).await;
    for round in 0..4 {
        let (a, b) = (format!("/groups/{one}/transfer"), format!("/groups/{two}/transfer"));
        let (into_two, into_one) = (json!({"group_id": two}), json!({"group_id": one}));
        let (first, second) = tokio::join!(root.post(&a, into_two), root.post(&b, into_one));
        let mut statuses = [first.status, second.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [201, 400], "{round}");
        let moved = if first.status == 201 { &a } else { &b };
        root.post(moved, json!({})).await.expect(201);
    }
}

async fn transfer_project_to_group_requires_administrator(server: TestServer) {
    let root = server.root();
    let ada = server.create_user("ada").await;
    let (bob, eve) = (server.create_user("bob").await, server.create_user("eve").await);
    let work = project(&ada.client, "work", json!({"visibility": "public"})).await;
    let engines = group(&root, "engines", json!({"visibility": "internal"})).await;
    join(&root, &format!("/groups/{engines}"), bob.id, 40).await;
    join(&ada.client, &format!("/projects/{work}"), eve.id, 30).await;
    join(&root, &format!("/groups/{engines}"), ada.id, 50).await;
    let path = |project: &str| format!("/groups/{engines}/projects/{project}");
    for client in [&ada.client, &bob.client] {
        client.post(&path(&work.to_string()), json!({})).await.expect(403);
    }
    let response = root.post(&path("ada%2Fwork"), json!({})).await.expect(201).json();
    assert_eq!(response["id"], json!(engines));
    assert_eq!(response["projects"][0]["path_with_namespace"], "engines/work");
    let read = root.get(&format!("/projects/{work}")).await.expect(200).json();
    assert_eq!((&read["visibility"], &read["namespace"]["id"]), (&json!("internal"), &json!(engines)));
    assert_eq!(root.get("/projects/ada%2Fwork").await.expect(200).json(), read);
    // Direct members stay, and members of the group are inherited.
    for (user, level) in [(&eve, 30), (&bob, 40)] {
        let member = root.get(&format!("/projects/{work}/members/all/{}", user.id)).await.expect(200).json();
        assert_eq!(member["access_level"], json!(level));
    }
    let again = root.post(&path(&work.to_string()), json!({})).await.expect(400);
    assert_eq!(again.json()["message"], json!({"namespace": ["already contains the project"]}));
    assert_eq!(root.post(&path("999999"), json!({})).await.expect(404).message(), "404 Project Not Found");
    let unknown = root.post("/groups/999999/projects/1", json!({})).await.expect(404);
    assert_eq!(unknown.message(), "404 Group Not Found");
    let twin = project(&ada.client, "work", json!({"name": "Other"})).await;
    let response = root.post(&path(&twin.to_string()), json!({})).await.expect(400);
    assert_eq!(response.json()["message"], json!({"path": ["has already been taken"]}));
    let named = project(&ada.client, "elsewhere", json!({"name": "WORK"})).await;
    let response = root.post(&path(&named.to_string()), json!({})).await.expect(400);
    assert_eq!(response.json()["message"], json!({"name": ["has already been taken"]}));
}

on_every_database![
    transfer_group_moves_descendants_and_changes_access,
    transfer_group_rejects_invalid_targets,
    transfer_group_requires_owner_and_creation_right_in_target,
    transfer_to_top_level_adds_owner_if_missing,
    concurrent_transfers_into_each_other_are_rejected,
    transfer_project_to_group_requires_administrator,
];
