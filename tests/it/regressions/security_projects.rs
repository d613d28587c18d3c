//! Hostile requests to projects, forks, archives and custom attributes.

use serde_json::json;
use storage::entities::Visibility;

use crate::support::client::segment;
use crate::support::code::Project;
use crate::support::git::{Work, address};
use crate::support::spaces::{group, join, project};
use crate::support::{TestServer, on_every_database};

async fn fork_cannot_have_restricted_visibility(server: TestServer) {
    let root = server.root();
    let source = Project::with_commits(&server, "source", Visibility::Public).await;
    let ada = server.create_user("ada").await;
    let fork = format!("/projects/{}/fork", source.id);
    let restrict = async |levels: &[&str]| {
        root.put("/application/settings", json!({"restricted_visibility_levels": levels})).await.expect(200);
    };
    restrict(&["public"]).await;
    let rejected = ada.client.post(&fork, json!({"visibility": "public"})).await.expect(400);
    assert_eq!(
        rejected.json()["message"],
        json!({"visibility_level": ["public has been restricted by your administrator"]})
    );
    let created = ada.client.post(&fork, json!({})).await.expect(201).json();
    assert_eq!(created["visibility"], "internal");
    restrict(&["public", "internal"]).await;
    let created = ada.client.post(&fork, json!({"path": "b", "name": "b"})).await.expect(201).json();
    assert_eq!(created["visibility"], "private");
    restrict(&["public", "internal", "private"]).await;
    ada.client.post(&fork, json!({"path": "c", "name": "c"})).await.expect(400);
    // The same applies to a fork into a group; administrators are exempt.
    let team = group(&root, "team", json!({"visibility": "public"})).await;
    join(&root, &format!("/groups/{team}"), ada.id, 40).await;
    ada.client.post(&fork, json!({"namespace_id": team, "visibility": "public"})).await.expect(400);
    let created = root.post(&fork, json!({"namespace_id": team})).await.expect(201).json();
    assert_eq!(created["visibility"], "public");
}

async fn group_cannot_get_restricted_visibility(server: TestServer) {
    let root = server.root();
    let ada = server.create_user("ada").await;
    let team = format!("/groups/{}", group(&ada.client, "team", json!({"visibility": "private"})).await);
    let levels = json!({"restricted_visibility_levels": ["public"]});
    root.put("/application/settings", levels).await.expect(200);
    let rejected = ada.client.put(&team, json!({"visibility": "public"})).await.expect(400);
    assert_eq!(
        rejected.json()["message"],
        json!({"visibility_level": ["public has been restricted by your administrator"]})
    );
    ada.client.put(&team, json!({"visibility": "internal"})).await.expect(200);
    root.put(&team, json!({"visibility": "public"})).await.expect(200);
    // A visibility that was set before can be sent again.
    ada.client.put(&team, json!({"visibility": "public", "name": "Team"})).await.expect(200);
}

async fn fork_and_transfer_respect_projects_limit(server: TestServer) {
    let root = server.root();
    let source = Project::with_commits(&server, "source", Visibility::Public).await;
    let ada = server.create_user("ada").await;
    let team = group(&root, "team", json!({})).await;
    join(&root, &format!("/groups/{team}"), ada.id, 50).await;
    root.put(&format!("/users/{}", ada.id), json!({"projects_limit": 1})).await.expect(200);
    let fork = format!("/projects/{}/fork", source.id);
    ada.client.post(&fork, json!({})).await.expect(201);
    ada.client.post(&fork, json!({"path": "b", "name": "b"})).await.expect(403);
    let other = project(&ada.client, "other", json!({"namespace_id": team})).await;
    ada.client.put(&format!("/projects/{other}/transfer"), json!({"namespace": "ada"})).await.expect(403);
    // Concurrent forks do not bypass the limit.
    root.put(&format!("/users/{}", ada.id), json!({"projects_limit": 2})).await.expect(200);
    let (first, second) = tokio::join!(
        ada.client.post(&fork, json!({"path": "b", "name": "b"})),
        ada.client.post(&fork, json!({"path": "c", "name": "c"}))
    );
    let mut statuses = [first.status, second.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 403]);
}

async fn unsafe_path_names_are_rejected_by_push_and_api(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let work = Work::new().await;
    let blob = work.git(&["hash-object", "-w", "README"]).await;
    let url = address(&server.base, "root", crate::support::server::ROOT_TOKEN, "root/work");
    for name in ["..", ".", ".git", ".GIT"] {
        let list = work.path.join("list");
        std::fs::write(&list, format!("100644 blob {blob}\t{name}\n")).expect("a file");
        let mktree =
            work.command(&["mktree"]).stdin(std::fs::File::open(&list).expect("a file")).output().await.expect("git");
        assert!(mktree.status.success(), "{name}");
        let tree = String::from_utf8_lossy(&mktree.stdout).trim().to_owned();
        let commit = work.git(&["commit-tree", &tree, "-m", "Out"]).await;
        work.fails(&["push", "--quiet", &url, &format!("{commit}:refs/heads/out")]).await;
        let action = json!({"branch": "out", "commit_message": "x",
            "actions": [{"action": "create", "file_path": format!("a/{name}/b"), "content": "x"}]});
        // `./` in a path is dropped.
        if name != "." {
            root.post(&format!("/projects/{id}/repository/commits"), action).await.expect(400);
        }
    }
    assert_eq!(root.get(&format!("/projects/{id}/repository/branches")).await.expect(200).json(), json!([]));
}

async fn custom_attribute_filters_accept_only_plain_text(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    root.put(&format!("/projects/{id}/custom_attributes/a"), json!({"value": "1"})).await.expect(200);
    let ada = server.create_user("ada").await;
    for list in ["/projects", &format!("/users/{}/projects", ada.id), &format!("/projects/{id}/forks")] {
        for query in [
            "custom_attributes[a]=%00",
            "custom_attributes[a%00]=1",
            "custom_attributes[a][b]=1",
            "custom_attributes=1",
        ] {
            root.get(&format!("{list}?{query}")).await.expect(400);
        }
        for key in ["a' OR '1'='1", "a\") OR 1=1 --", "\\", "%", "_", "ä🚀"] {
            let found = root.get(&format!("{list}?custom_attributes[{}]=1", segment(key))).await.expect(200);
            assert_eq!(found.json(), json!([]), "{list} {key}");
        }
    }
    for key in ["a%00b", "%20", &"k".repeat(300)] {
        root.put(&format!("/projects/{id}/custom_attributes/{key}"), json!({"value": "1"})).await.expect(400);
    }
    root.put(&format!("/projects/{id}/custom_attributes/b"), json!({"value": "a\0b"})).await.expect(400);
    // Other users' filters by custom attributes are ignored.
    assert_eq!(
        ada.client.get("/projects?custom_attributes[a]=2&visibility=private").await.expect(200).json(),
        json!([])
    );
}

async fn hidden_project_returns_404_in_all_references(server: TestServer) {
    let root = server.root();
    let hidden = Project::with_commits(&server, "hidden", Visibility::Private).await;
    let ada = server.create_user("ada").await;
    let own = project(&ada.client, "own", json!({"initialize_with_readme": true})).await;
    let post = async |path: String, body: serde_json::Value| {
        let response = ada.client.post(&path, body).await.expect(404);
        assert_eq!(response.message(), "404 Project Not Found", "{path}");
    };
    for name in [hidden.id.to_string(), segment("root/hidden"), "999999".to_owned(), segment("root/none")] {
        post(format!("/projects/{name}/fork"), json!({})).await;
        post(format!("/projects/{own}/fork/{name}"), json!({})).await;
        post(format!("/projects/{name}/uploads"), json!({})).await;
        post(format!("/projects/{name}/star"), json!({})).await;
    }
    for name in [json!(hidden.id), json!("root/hidden"), json!(999_999)] {
        let start = json!({"branch": "new", "start_project": name, "start_branch": "main", "commit_message": "x",
            "actions": [{"action": "create", "file_path": "x", "content": "x"}]});
        post(format!("/projects/{own}/repository/commits"), start).await;
    }
    let moved =
        ada.client.put(&format!("/projects/{}/transfer", hidden.id), json!({"namespace": "ada"})).await.expect(404);
    assert_eq!(moved.message(), "404 Project Not Found");
    // The path of the hidden project is reserved, and the error reveals nothing else.
    let squat = json!({"path": "hidden", "namespace_id": server.personal_namespace(1).await.id});
    ada.client.post("/projects", squat).await.expect(400);
    assert_eq!(root.get(&format!("/projects/{}", hidden.id)).await.expect(200).json()["forks_count"], 0);
}

on_every_database![
    fork_cannot_have_restricted_visibility,
    group_cannot_get_restricted_visibility,
    fork_and_transfer_respect_projects_limit,
    unsafe_path_names_are_rejected_by_push_and_api,
    custom_attribute_filters_accept_only_plain_text,
    hidden_project_returns_404_in_all_references,
];
