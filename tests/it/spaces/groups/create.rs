//! Creating and reading groups.

use serde_json::{Value, json};

use crate::support::spaces::{group, id, join, project};
use crate::support::{TestServer, on_every_database};

fn failure(field: &str, text: &str) -> String {
    format!("Failed to save group {{:{field}=>[\"{text}\"]}}")
}

async fn create_group_returns_all_fields_and_adds_owner(server: TestServer) {
    let ada = server.create_user("ada").await;
    let body = json!({"name": "Engines (old)", "path": "Engines", "description": "Machines", "visibility": "public"});
    let created = ada.client.post("/groups", body).await.expect(201).json();
    assert_eq!(created["web_url"], format!("{}/groups/Engines", server.base));
    assert_eq!(
        (&created["full_name"], &created["full_path"], &created["visibility"], &created["parent_id"]),
        (&json!("Engines (old)"), &json!("Engines"), &json!("public"), &Value::Null)
    );
    assert_eq!(created["runners_token"].as_str().map(str::len), Some(32));
    assert_eq!((&created["projects"], &created["shared_projects"]), (&json!([]), &json!([])));
    let base_path = format!("/groups/{}/members/{}", created["id"], ada.id);
    assert_eq!(ada.client.get(&base_path).await.expect(200).json()["access_level"], 50);
    let read = ada.client.get("/groups/engines").await.expect(200).json();
    assert_eq!(read, created);
}

async fn runners_token_is_visible_only_to_owners(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({"visibility": "public"})).await;
    for (level, user) in server.create_member_per_role(&root, engines).await {
        let read = user.client.get(&format!("/groups/{engines}")).await.expect(200).json();
        assert_eq!(read.get("runners_token").is_some(), level == 50, "{level}");
    }
    let read = server.anonymous().get("/groups/engines").await.expect(200).json();
    assert_eq!(read.get("runners_token"), None);
}

async fn get_group_without_projects_omits_them(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({})).await;
    project(&root, "difference", json!({"namespace_id": engines})).await;
    let with = root.get(&format!("/groups/{engines}")).await.expect(200).json();
    assert_eq!(with["projects"][0]["path_with_namespace"], "engines/difference");
    let without = root.get(&format!("/groups/{engines}?with_projects=false")).await.expect(200).json();
    for field in ["projects", "shared_projects", "runners_token"] {
        assert_eq!(without.get(field), None, "{field}");
    }
    root.get(&format!("/groups/{engines}?with_projects=maybe")).await.expect(400);
}

async fn create_group_rejects_invalid_names_and_paths(server: TestServer) {
    let root = server.root();
    group(&root, "engines", json!({})).await;
    let name = "can contain only letters, digits, emojis, '_', '.', dash, space, parenthesis. \
                It must start with letter, digit, emoji or '_'.";
    let path = "can contain only letters, digits, '_', '-' and '.'. \
                Cannot start with '-' or end in '.', '.git' or '.atom'";
    for (sent_name, sent_path, field, text) in [
        ("<script>", "a", "name", name),
        ("-", "a", "name", name),
        ("a", "../a", "path", path),
        ("a", "-a", "path", path),
        ("a", "a.git", "path", path),
        ("a", "ä", "path", path),
        ("a", "Admin", "path", "is a reserved name"),
        ("a", "-", "path", path),
        ("a", "ENGINES", "path", "has already been taken"),
        ("Engines", "other", "name", "has already been taken"),
        ("a", "root", "path", "has already been taken"),
    ] {
        let body = json!({"name": sent_name, "path": sent_path});
        let response = root.post("/groups", body).await.expect(400);
        assert_eq!(response.message(), failure(field, text), "{sent_name} {sent_path}");
    }
}

async fn create_group_rejects_invalid_parameters(server: TestServer) {
    let root = server.root();
    let missing = root.post("/groups", json!({})).await.expect(400);
    assert_eq!(missing.message(), "name is missing, name is empty, path is missing, path is empty");
    let faulty = root.post("/groups", json!({"name": "a", "path": "a", "visibility": "open"})).await.expect(400);
    assert_eq!(faulty.message(), "visibility does not have a valid value");
    for body in [
        json!({"name": "a\u{0}", "path": "a"}),
        json!({"name": ["a"], "path": "a"}),
        json!({"name": "a".repeat(256), "path": "a"}),
        json!({"name": "a", "path": "a", "two_factor_grace_period": 4_000_000_000_i64}),
        json!({"name": "a", "path": "a", "default_branch_protection": 4}),
    ] {
        root.post("/groups", body).await.expect(400);
    }
    server.anonymous().post("/groups", json!({})).await.expect(401);
}

async fn create_subgroup_requires_creation_level_of_parent(server: TestServer) {
    let root = server.root();
    let strict = group(&root, "strict", json!({"subgroup_creation_level": "owner"})).await;
    let members = server.create_member_per_role(&root, strict).await;
    let easy = group(&root, "easy", json!({})).await;
    for (level, user) in &members {
        join(&root, &format!("/groups/{easy}"), user.id, *level).await;
        let path = format!("by{level}");
        let body = |parent: i64| json!({"name": path, "path": path, "parent_id": parent});
        let status = user.client.post("/groups", body(strict)).await.status;
        assert_eq!(status, if *level == 50 { 201 } else { 403 }, "{level}");
        let status = user.client.post("/groups", body(easy)).await.status;
        assert_eq!(status, if *level >= 40 { 201 } else { 403 }, "{level}");
    }
    let non_member = server.create_user("stranger").await;
    for parent in [strict, 999_999] {
        let body = json!({"name": "x", "path": "x", "parent_id": parent});
        let response = non_member.client.post("/groups", body).await.expect(404);
        assert_eq!(response.message(), "404 Group Not Found");
    }
}

async fn create_subgroup_rejects_visibility_above_parent(server: TestServer) {
    let root = server.root();
    let hidden = group(&root, "hidden", json!({})).await;
    let body = json!({"name": "open", "path": "open", "parent_id": hidden, "visibility": "internal"});
    let response = root.post("/groups", body).await.expect(400);
    let text = "internal is not allowed since the parent group has a private visibility.";
    assert_eq!(response.message(), failure("visibility_level", text));
    let body = json!({"name": "Inner", "path": "inner", "parent_id": hidden});
    let inner = root.post("/groups", body).await.expect(201).json();
    assert_eq!((&inner["full_name"], &inner["full_path"]), (&json!("hidden / Inner"), &json!("hidden/inner")));
}

async fn create_group_rejects_more_than_20_levels(server: TestServer) {
    let root = server.root();
    let mut parent = group(&root, "g0", json!({})).await;
    for depth in 1..20 {
        parent = group(&root, &format!("g{depth}"), json!({"parent_id": parent})).await;
    }
    let response = root.post("/groups", json!({"name": "x", "path": "x", "parent_id": parent})).await.expect(400);
    assert_eq!(response.message(), failure("parent_id", "has too deep level of nesting"));
}

async fn private_group_returns_404_to_non_members(server: TestServer) {
    let root = server.root();
    let hidden = group(&root, "hidden", json!({})).await;
    let non_member = server.create_user("stranger").await;
    for caller in [&non_member.client, &server.anonymous()] {
        let existing = caller.get(&format!("/groups/{hidden}")).await.expect(404);
        let missing = caller.get("/groups/999999").await.expect(404);
        assert_eq!(existing.body, missing.body);
    }
    join(&root, &format!("/groups/{hidden}"), non_member.id, 10).await;
    let read = non_member.client.get("/groups/hidden").await.expect(200).json();
    assert_eq!(id(&read), hidden);
}

on_every_database![
    create_group_returns_all_fields_and_adds_owner,
    runners_token_is_visible_only_to_owners,
    get_group_without_projects_omits_them,
    create_group_rejects_invalid_names_and_paths,
    create_group_rejects_invalid_parameters,
    create_subgroup_requires_creation_level_of_parent,
    create_subgroup_rejects_visibility_above_parent,
    create_group_rejects_more_than_20_levels,
    private_group_returns_404_to_non_members,
];
