//! Protected branches of projects and groups.

mod code_owners;
mod grants;
mod groups;
mod limits;
mod older_operations;
mod refusals;

use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility};

use crate::support::code::Project;
use crate::support::{Client, TestServer, on_every_database};

/// Creates a protection of `/projects/:id` or `/groups/:id` and returns it.
pub async fn protection(client: &Client, path: &str, body: Value) -> Value {
    client.post(&format!("{path}/protected_branches"), body).await.expect(201).json()
}

/// Returns the entry of a role.
fn role(id: &Value, level: i64, description: &str) -> Value {
    json!({
        "id": id, "access_level": level, "access_level_description": description,
        "user_id": null, "group_id": null, "deploy_key_id": null,
    })
}

/// Returns the access levels of a list of entries.
fn levels(protection: &Value, list: &str) -> Vec<i64> {
    let entries = protection[list].as_array().expect("a list").iter();
    entries.map(|entry| entry["access_level"].as_i64().expect("a level")).collect()
}

async fn branch_protection_lifecycle(server: TestServer) {
    let project = Project::empty(&server, "engine", Visibility::Private).await;
    let path = format!("/projects/{}", project.id);
    let all = format!("{path}/protected_branches");
    let root = server.root();
    assert_eq!(root.get(&all).await.expect(200).json(), json!([]));
    // The branch does not have to exist.
    let created = protection(&root, &path, json!({"name": "release/*"})).await;
    let ids: Vec<Value> = ["push", "merge", "unprotect"]
        .iter()
        .map(|kind| created[format!("{kind}_access_levels")][0]["id"].clone())
        .collect();
    assert_eq!(
        created,
        json!({
            "id": created["id"], "name": "release/*", "allow_force_push": false, "inherited": false,
            "code_owner_approval_required": false,
            "push_access_levels": [role(&ids[0], 40, "Maintainers")],
            "merge_access_levels": [role(&ids[1], 40, "Maintainers")],
            "unprotect_access_levels": [role(&ids[2], 40, "Maintainers")],
        })
    );
    let one = format!("{all}/release%2F*");
    assert_eq!(root.get(&one).await.expect(200).json(), created);
    let body = json!({
        "name": "Main", "push_access_level": 0, "merge_access_level": 30, "unprotect_access_level": 60,
        "allow_force_push": true,
    });
    let second = protection(&root, &path, body).await;
    assert_eq!(second["push_access_levels"][0]["access_level_description"], "No one");
    assert_eq!(second["merge_access_levels"][0]["access_level_description"], "Developers + Maintainers");
    assert_eq!(second["unprotect_access_levels"][0]["access_level_description"], "Instance admins");
    assert_eq!(second["allow_force_push"], true);
    assert_eq!(root.get(&all).await.expect(200).json(), json!([created, second]));
    let page = root.get(&format!("{all}?per_page=1&page=2")).await.expect(200);
    assert_eq!((page.json(), page.header("X-Total")), (json!([second]), "2"));
    for (search, names) in
        [("LEASE", vec!["release/*"]), ("main", vec!["Main"]), ("none", vec![]), ("/*", vec!["release/*"])]
    {
        let found = root.get(&format!("{all}?search={search}")).await.expect(200);
        assert_eq!(found.pluck("name"), names, "{search}");
    }
    let changed = root.patch(&one, json!({"allow_force_push": true})).await.expect(200).json();
    assert_eq!((&changed["allow_force_push"], &changed["id"]), (&json!(true), &created["id"]));
    assert_eq!(root.patch(&one, json!({})).await.expect(200).json(), changed);
    root.delete(&one).await.expect(204);
    root.get(&one).await.expect(404);
    assert_eq!(root.get(&all).await.expect(200).pluck("name"), ["Main"]);
}

async fn update_changes_entries_by_id(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let one = format!("/projects/{}/protected_branches/main", project.id);
    let root = server.root();
    let before = root.get(&one).await.expect(200).json();
    assert_eq!(before["unprotect_access_levels"], json!([]));
    let id = |protection: &Value, list: &str| protection[list][0]["id"].clone();
    let push = id(&before, "push_access_levels");
    let body = json!({"allowed_to_push": [{"id": push, "access_level": 60}]});
    assert_eq!(levels(&root.patch(&one, body).await.expect(200).json(), "push_access_levels"), [60]);
    let body = json!({"allowed_to_push": [{"access_level": 30}, {"id": push, "_destroy": true}]});
    assert_eq!(levels(&root.patch(&one, body).await.expect(200).json(), "push_access_levels"), [30]);
    // The most permissive role remains.
    let body = json!({"allowed_to_push": [{"access_level": 40}]});
    assert_eq!(levels(&root.patch(&one, body).await.expect(200).json(), "push_access_levels"), [30]);
    let body =
        json!({"allowed_to_push": [{"id": push, "_destroy": true}], "allowed_to_unprotect": [{"access_level": 60}]});
    let changed = root.patch(&one, body).await.expect(200).json();
    assert_eq!(
        (levels(&changed, "push_access_levels"), levels(&changed, "unprotect_access_levels")),
        (vec![0], vec![60])
    );
    assert_eq!(levels(&changed, "merge_access_levels"), [40]);
    let body = json!({"allowed_to_unprotect": [{"id": id(&changed, "unprotect_access_levels"), "_destroy": true}]});
    assert_eq!(root.patch(&one, body).await.expect(200).json()["unprotect_access_levels"], json!([]));
}

async fn form_and_json_create_the_same_protection(server: TestServer) {
    let project = Project::empty(&server, "engine", Visibility::Private).await;
    let dev = server.create_user("dev").await;
    server.insert_member(project.id, dev.id, AccessLevel::Developer).await;
    let all = format!("/projects/{}/protected_branches", project.id);
    let user = dev.id.to_string();
    let pairs = [
        ("name", "form"),
        ("allowed_to_push[][user_id]", user.as_str()),
        ("allowed_to_merge[][access_level]", "30"),
        ("allow_force_push", "true"),
    ];
    let form = server.root().post_form(&all, &pairs).await.expect(201).json();
    let body = json!({
        "name": "json", "allow_force_push": true, "allowed_to_push": [{"user_id": dev.id}],
        "allowed_to_merge": [{"access_level": 30}],
    });
    let json = server.root().post(&all, body).await.expect(201).json();
    for created in [form, json] {
        assert_eq!(created["push_access_levels"][0]["user_id"], dev.id);
        assert_eq!(created["push_access_levels"].as_array().map(Vec::len), Some(1), "no role is added");
        assert_eq!((levels(&created, "merge_access_levels"), &created["allow_force_push"]), (vec![30], &json!(true)));
    }
}

async fn overlapping_protections_are_most_permissive(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let developer = project.member("dev", AccessLevel::Developer).await;
    let path = format!("/projects/{}", project.id);
    protection(&server.root(), &path, json!({"name": "feature/*", "push_access_level": 0, "merge_access_level": 0}))
        .await;
    let branch = project.url("/branches/feature%2Fx");
    let seen = developer.get(&branch).await.expect(200).json();
    assert_eq!((&seen["protected"], &seen["can_push"]), (&json!(true), &json!(false)));
    protection(&server.root(), &path, json!({"name": "*/x", "push_access_level": 30})).await;
    let seen = developer.get(&branch).await.expect(200).json();
    assert_eq!((&seen["can_push"], &seen["developers_can_push"]), (&json!(true), &json!(true)));
    assert_eq!(seen["developers_can_merge"], false);
}

on_every_database![
    branch_protection_lifecycle,
    update_changes_entries_by_id,
    form_and_json_create_the_same_protection,
    overlapping_protections_are_most_permissive,
];
