//! Former paths of renamed and transferred projects, groups and users.

use serde_json::json;
use storage::entities::AccessLevel;

use crate::support::git::{Work, address};
use crate::support::server::ROOT_TOKEN;
use crate::support::spaces::{group, project};
use crate::support::{Client, TestServer, on_every_database};

/// Returns the ID of the project or group at a path.
async fn id_at(client: &Client, path: &str) -> i64 {
    client.get(path).await.expect(200).json()["id"].as_i64().expect("an ID")
}

async fn former_path_of_project_serves_reads_writes_and_git(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({"initialize_with_readme": true})).await;
    for path in ["second", "third"] {
        root.put(&format!("/projects/{work}"), json!({"path": path})).await.expect(200);
    }
    for path in ["work", "Work", "second", "third"] {
        assert_eq!(id_at(&root, &format!("/projects/root%2F{path}")).await, work, "{path}");
    }
    let changed = root.put("/projects/root%2Fwork", json!({"description": "new"})).await.expect(200).json();
    assert_eq!((&changed["description"], &changed["path"]), (&json!("new"), &json!("third")));
    let clones = Work::empty();
    clones.git(&["clone", "--quiet", &address(&server.base, "root", ROOT_TOKEN, "root/work"), "c"]).await;
    let clone = clones.below("c");
    clone.commit("a", "1").await;
    clone.git(&["push", "--quiet", "origin", "HEAD"]).await;
    root.get(&format!("/projects/{work}/repository/files/a?ref=main")).await.expect(200);
    // A renamed project can return to its former path.
    root.put(&format!("/projects/{work}"), json!({"path": "work"})).await.expect(200);
    assert_eq!(id_at(&root, "/projects/root%2Fthird").await, work);
}

async fn new_project_at_former_path_takes_precedence(server: TestServer) {
    let root = server.root();
    let old = project(&root, "work", json!({})).await;
    root.put(&format!("/projects/{old}"), json!({"path": "moved", "name": "moved"})).await.expect(200);
    let new = project(&root, "work", json!({})).await;
    assert_eq!(id_at(&root, "/projects/root%2Fwork").await, new);
    // The newest former project of a path counts.
    root.put(&format!("/projects/{new}"), json!({"path": "other"})).await.expect(200);
    assert_eq!(id_at(&root, "/projects/root%2Fwork").await, new);
    root.put("/application/settings", json!({"deletion_adjourned_period": 0})).await.expect(200);
    root.delete(&format!("/projects/{new}")).await.expect(202);
    server.finish_jobs().await;
    root.get("/projects/root%2Fwork").await.expect(404);
    assert_eq!(id_at(&root, "/projects/root%2Fmoved").await, old);
}

async fn former_paths_of_groups_cover_everything_below(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({})).await;
    let inner = group(&root, "inner", json!({"parent_id": top})).await;
    let work = project(&root, "work", json!({"namespace_id": inner})).await;
    let other = group(&root, "other", json!({})).await;
    root.put(&format!("/groups/{top}"), json!({"path": "first"})).await.expect(200);
    root.put(&format!("/groups/{inner}"), json!({"path": "core"})).await.expect(200);
    root.put(&format!("/projects/{work}"), json!({"path": "engine"})).await.expect(200);
    root.post(&format!("/groups/{inner}/transfer"), json!({"group_id": other})).await.expect(201);
    for path in ["top%2Finner%2Fwork", "first%2Finner%2Fwork", "first%2Fcore%2Fwork", "first%2Fcore%2Fengine"] {
        assert_eq!(id_at(&root, &format!("/projects/{path}")).await, work, "{path}");
    }
    for path in ["top%2Finner", "first%2Finner", "first%2Fcore", "other%2Fcore"] {
        assert_eq!(id_at(&root, &format!("/groups/{path}")).await, inner, "{path}");
    }
    assert_eq!(id_at(&root, "/groups/top").await, top);
    for path in ["/projects/top%2Fwork", "/groups/top%2Fmissing", "/groups/top%2Finner%2Fwork"] {
        root.get(path).await.expect(404);
    }
}

async fn former_username_leads_to_personal_projects(server: TestServer) {
    let (root, ada) = (server.root(), server.create_user("ada").await);
    let work = project(&ada.client, "work", json!({})).await;
    root.put(&format!("/users/{}", ada.id), json!({"username": "countess"})).await.expect(200);
    assert_eq!(id_at(&ada.client, "/projects/ada%2Fwork").await, work);
    assert_eq!(id_at(&ada.client, "/projects/countess%2Fwork").await, work);
}

async fn former_paths_reveal_no_hidden_project(server: TestServer) {
    let (root, ada) = (server.root(), server.create_user("ada").await);
    let work = project(&root, "work", json!({})).await;
    root.put(&format!("/projects/{work}"), json!({"path": "hidden"})).await.expect(200);
    let missing = ada.client.get("/projects/root%2Fmissing").await.expect(404);
    assert_eq!(ada.client.get("/projects/root%2Fwork").await.expect(404).body, missing.body);
    server.anonymous().get("/projects/root%2Fwork").await.expect(404);
    server.insert_member(work, ada.id, AccessLevel::Guest).await;
    assert_eq!(id_at(&ada.client, "/projects/root%2Fwork").await, work);
}

on_every_database![
    former_path_of_project_serves_reads_writes_and_git,
    new_project_at_former_path_takes_precedence,
    former_paths_of_groups_cover_everything_below,
    former_username_leads_to_personal_projects,
    former_paths_reveal_no_hidden_project,
];
