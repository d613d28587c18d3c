//! Updating groups.

use serde_json::{Value, json};

use crate::support::spaces::{group, join, project};
use crate::support::{TestServer, on_every_database};

async fn update_group_changes_only_sent_attributes(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({"description": "Machines", "auto_devops_enabled": true})).await;
    let one = format!("/groups/{engines}");
    let before = root.get(&one).await.expect(200).json();
    assert_eq!(root.put(&one, json!({})).await.expect(200).json(), before);
    let change = json!({
        "name": "Analytical engines", "visibility": "internal", "auto_devops_enabled": null, "emails_disabled": true,
        "project_creation_level": "noone", "subgroup_creation_level": "owner",
        "default_branch_protection": 0, "request_access_enabled": false, "two_factor_grace_period": 1,
        "require_two_factor_authentication": true, "share_with_group_lock": true, "membership_lock": true,
        "mentions_disabled": false, "default_branch": "trunk",
    });
    let changed = root.put(&one, change.clone()).await.expect(200).json();
    for (field, value) in change.as_object().expect("an object") {
        assert_eq!(&changed[field], value, "{field}");
    }
    assert_eq!((&changed["description"], &changed["path"]), (&json!("Machines"), &json!("engines")));
    assert_eq!(root.get(&one).await.expect(200).json(), changed);
}

async fn new_group_path_changes_paths_of_descendants(server: TestServer) {
    let root = server.root();
    let outer = group(&root, "outer", json!({})).await;
    let inner = group(&root, "Inner", json!({"parent_id": outer})).await;
    let low = group(&root, "low", json!({"parent_id": inner})).await;
    let sibling = group(&root, "outermost", json!({})).await;
    let deep = group(&root, "deep", json!({"parent_id": sibling})).await;
    let work = project(&root, "work", json!({"namespace_id": low})).await;
    root.put(&format!("/groups/{outer}"), json!({"path": "Über"})).await.expect(400);
    root.put(&format!("/groups/{outer}"), json!({"path": "Rim"})).await.expect(200);
    let path = async |id: i64| root.get(&format!("/groups/{id}")).await.expect(200).json()["full_path"].clone();
    assert_eq!((path(inner).await, path(low).await), (json!("Rim/Inner"), json!("Rim/Inner/low")));
    assert_eq!((path(sibling).await, path(deep).await), (json!("outermost"), json!("outermost/deep")));
    let moved = root.get("/projects/rim%2Finner%2Flow%2Fwork").await.expect(200).json();
    assert_eq!((&moved["id"], &moved["path_with_namespace"]), (&json!(work), &json!("Rim/Inner/low/work")));
    // The former paths find the same groups and projects.
    assert_eq!(root.get("/groups/outer%2Finner").await.expect(200).json()["id"], inner);
    assert_eq!(root.get("/projects/outer%2Finner%2Flow%2Fwork").await.expect(200).json(), moved);
    // Only the case changes.
    root.put(&format!("/groups/{outer}"), json!({"path": "rim"})).await.expect(200);
    assert_eq!(path(low).await, json!("rim/Inner/low"));
    // The old path can be used again.
    group(&root, "outer", json!({"name": "again"})).await;
    // A rename in the middle of the tree.
    root.put(&format!("/groups/{inner}"), json!({"path": "core"})).await.expect(200);
    assert_eq!(path(low).await, json!("rim/core/low"));
}

async fn update_group_returns_errors_by_attribute(server: TestServer) {
    let root = server.root();
    let outer = group(&root, "outer", json!({"visibility": "internal"})).await;
    let inner = group(&root, "inner", json!({"parent_id": outer, "visibility": "internal"})).await;
    group(&root, "other", json!({"parent_id": outer})).await;
    project(&root, "work", json!({"namespace_id": outer})).await;
    project(&root, "seen", json!({"namespace_id": inner, "visibility": "internal"})).await;
    let (taken, outer, inner) = ("has already been taken", format!("/groups/{outer}"), format!("/groups/{inner}"));
    let path = "can contain only letters, digits, '_', '-' and '.'. Cannot start with '-' or end in '.', '.git' or \
                '.atom'";
    for (base_path, body, field, text) in [
        (&inner, json!({"path": "OTHER"}), "path", taken),
        (&inner, json!({"path": "work"}), "path", taken),
        (&inner, json!({"name": "Other"}), "name", taken),
        (&outer, json!({"path": "root"}), "path", taken),
        (&outer, json!({"path": "api"}), "path", "is a reserved name"),
        (&outer, json!({"path": "a/b"}), "path", path),
        (
            &inner,
            json!({"visibility": "public"}),
            "visibility_level",
            "public is not allowed since the parent group has a internal visibility.",
        ),
        (
            &outer,
            json!({"visibility": "private"}),
            "visibility_level",
            "private is not allowed since there are sub-groups with higher visibility.",
        ),
        (
            &inner,
            json!({"visibility": "private"}),
            "visibility_level",
            "private is not allowed since this group contains projects with higher visibility.",
        ),
        (
            &inner,
            json!({"two_factor_grace_period": 4_000_000_000_i64}),
            "two_factor_grace_period",
            "is not a number in range",
        ),
    ] {
        let response = root.put(base_path, body.clone()).await.expect(400);
        assert_eq!(response.json()["message"], json!({field: [text]}), "{body}");
    }
    let faulty = root.put(&inner, json!({"visibility": "open"})).await.expect(400);
    assert_eq!(faulty.message(), "visibility does not have a valid value");
}

async fn update_group_requires_owner(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({})).await;
    let one = format!("/groups/{engines}");
    for (level, user) in server.create_member_per_role(&root, engines).await {
        let response = user.client.put(&one, json!({"description": level.to_string()})).await;
        assert_eq!(response.status, if level == 50 { 200 } else { 403 }, "{level}");
    }
    server.create_user("stranger").await.client.put(&one, json!({})).await.expect(404);
    server.anonymous().put(&one, json!({})).await.expect(401);
}

async fn share_lock_is_inherited_by_subgroups(server: TestServer) {
    let root = server.root();
    let outer = group(&root, "outer", json!({})).await;
    let inner = group(&root, "inner", json!({"parent_id": outer})).await;
    let (outer_place, inner_place) = (format!("/groups/{outer}"), format!("/groups/{inner}"));
    root.put(&outer_place, json!({"share_with_group_lock": true})).await.expect(200);
    let lock = async |base_path: &str| root.get(base_path).await.expect(200).json()["share_with_group_lock"].clone();
    assert_eq!(lock(&inner_place).await, json!(true));
    let later = group(&root, "later", json!({"parent_id": outer})).await;
    assert_eq!(lock(&format!("/groups/{later}")).await, json!(true));
    let ada = server.create_user("ada").await;
    join(&root, &inner_place, ada.id, 50).await;
    let unlocked = json!({"name": "n", "path": "n", "parent_id": outer, "share_with_group_lock": false});
    let eve = server.create_user("eve").await;
    join(&root, &outer_place, eve.id, 40).await;
    let message = eve.client.post("/groups", unlocked.clone()).await.expect(400).message();
    assert!(message.contains(":share_with_group_lock=>[\"cannot be disabled"), "{message}");
    let rejected = ada.client.put(&inner_place, json!({"share_with_group_lock": false})).await.expect(400);
    assert_ne!(rejected.json()["message"]["share_with_group_lock"], Value::Null);
    join(&root, &outer_place, ada.id, 50).await;
    ada.client.put(&inner_place, json!({"share_with_group_lock": false})).await.expect(200);
    let created = ada.client.post("/groups", unlocked).await.expect(201).json();
    assert_eq!(created["share_with_group_lock"], false);
    assert_eq!((lock(&outer_place).await, lock(&inner_place).await), (json!(true), json!(false)));
}

async fn membership_lock_rejects_project_members(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({"membership_lock": true})).await;
    let work = project(&root, "work", json!({"namespace_id": engines})).await;
    let ada = server.create_user("ada").await;
    let new = json!({"user_id": ada.id, "access_level": 30});
    let response = root.post(&format!("/projects/{work}/members"), new.clone()).await.expect(405);
    assert_eq!(response.message(), "405 Method Not Allowed");
    root.post(&format!("/groups/{engines}/members"), new).await.expect(201);
}

async fn group_operations_reject_oversized_bodies_and_invalid_tokens(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({})).await;
    let work = project(&root, "work", json!({"namespace_id": engines})).await;
    let long = json!({"description": "x".repeat(1 << 20)});
    for path in [
        "/groups",
        &format!("/groups/{engines}/share"),
        &format!("/groups/{engines}/transfer"),
        &format!("/groups/{engines}/members"),
        &format!("/projects/{work}/members"),
    ] {
        root.post(path, long.clone()).await.expect(413);
    }
    for path in
        [&format!("/groups/{engines}"), &format!("/groups/{engines}/members/1"), &format!("/projects/{work}/members/1")]
    {
        root.put(path, long.clone()).await.expect(413);
    }
    let wrong = server.with_token("wrong");
    for path in [
        "",
        &format!("/{engines}"),
        &format!("/{engines}/subgroups"),
        &format!("/{engines}/projects"),
        &format!("/{engines}/descendant_groups"),
        &format!("/{engines}/descendants"),
    ] {
        wrong.get(&format!("/groups{path}")).await.expect(401);
    }
    let sudo = root.clone().header("Sudo", "missing-user");
    for path in ["/groups", "/namespaces"] {
        sudo.get(path).await.expect(404);
    }
}

async fn concurrent_subgroup_creation_gets_renamed_path(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({})).await;
    let mid = group(&root, "mid", json!({"parent_id": top})).await;
    let rename = async {
        for round in 0..6 {
            let body = json!({"path": format!("top{round}")});
            root.put(&format!("/groups/{top}"), body).await.expect(200);
        }
    };
    let make = async {
        for number in 0..12 {
            group(&root, &format!("g{number}"), json!({"parent_id": mid})).await;
        }
    };
    tokio::join!(rename, make);
    let found = root.get(&format!("/groups/{mid}/subgroups?per_page=100&order_by=id")).await.expect(200);
    let expected: Vec<Value> = (0..12).map(|number| json!(format!("top5/mid/g{number}"))).collect();
    assert_eq!(found.pluck("full_path"), expected);
}

on_every_database![
    update_group_changes_only_sent_attributes,
    new_group_path_changes_paths_of_descendants,
    update_group_returns_errors_by_attribute,
    update_group_requires_owner,
    share_lock_is_inherited_by_subgroups,
    membership_lock_rejects_project_members,
    group_operations_reject_oversized_bodies_and_invalid_tokens,
    concurrent_subgroup_creation_gets_renamed_path,
];
