//! Merge requests that contain a commit.

use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility};

use crate::review::merge_requests::propose;
use crate::support::code::{NewCommit, Project, file};
use crate::support::{TestServer, on_every_database};

async fn commit_lists_its_merge_requests_newest_first(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "contained", Visibility::Public).await;
    let (first, main) = (project.id("feature/x"), project.id("main"));
    propose(&root, project.id, "feature/x", "main", json!({"labels": "a"})).await;
    project.import(&NewCommit {
        branch: "longer",
        from: Some("feature/x"),
        time: 1_600_000_500,
        changes: file("longer", "l"),
        ..NewCommit::default()
    });
    propose(&root, project.id, "longer", "main", json!({})).await;
    server.finish_jobs().await;
    let url = |sha: &str| project.url(&format!("/commits/{sha}/merge_requests"));
    let found = root.get(&url(&first)).await.expect(200);
    assert_eq!((found.header("X-Total"), found.pluck("iid")), ("2", vec![json!(2), json!(1)]));
    let listed = root.get(&format!("/projects/{}/merge_requests", project.id)).await.expect(200).json();
    assert_eq!(found.json(), listed);
    for revision in ["feature%2Fx", &first[..8], &first.to_uppercase()] {
        assert_eq!(root.get(&url(revision)).await.expect(200).json(), listed, "{revision}");
    }
    assert_eq!(root.get(&url("longer")).await.expect(200).pluck("iid"), [json!(2)]);
    // Commits of the target branch and of its past belong to no merge request.
    for revision in [main.as_str(), "merged"] {
        assert_eq!(root.get(&url(revision)).await.expect(200).json(), json!([]), "{revision}");
    }
    let page = root.get(&format!("{}?per_page=1&page=2", url(&first))).await.expect(200);
    assert_eq!(page.pluck("iid"), [json!(1)]);
}

async fn merge_and_squash_commits_are_found(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "merged", Visibility::Public).await;
    let head = project.id("feature/x");
    let iid = propose(&root, project.id, "feature/x", "main", json!({})).await;
    let merge = format!("/projects/{}/merge_requests/{iid}/merge", project.id);
    let body = json!({"squash": true, "squash_commit_message": "Squashed"});
    let merged = root.put(&merge, body).await.expect(200).json();
    server.finish_jobs().await;
    let iids = async |sha: &str, query: &str| {
        let url = project.url(&format!("/commits/{sha}/merge_requests{query}"));
        root.get(&url).await.expect(200).pluck("iid")
    };
    for sha in [&merged["merge_commit_sha"], &merged["squash_commit_sha"], &json!(head)] {
        let sha = sha.as_str().expect("an ID");
        assert_eq!(iids(sha, "").await, [json!(iid)], "{sha}");
        assert_eq!(iids(sha, "?state=merged").await, [json!(iid)]);
        assert_eq!(iids(sha, "?state=opened").await, [Value::Null; 0]);
    }
}

async fn replaced_commits_are_found_no_longer(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "replaced", Visibility::Public).await;
    let replaced = project.id("feature/x");
    propose(&root, project.id, "feature/x", "main", json!({})).await;
    server.finish_jobs().await;
    let body = json!({
        "branch": "feature/x", "start_branch": "main", "force": true, "commit_message": "m",
        "actions": [{"action": "create", "file_path": "new", "content": "x"}],
    });
    let current = root.post(&project.url("/commits"), body).await.expect(201).json()["id"].clone();
    server.finish_jobs().await;
    let iids = async |sha: &str| {
        let url = project.url(&format!("/commits/{sha}/merge_requests"));
        root.get(&url).await.expect(200).pluck("iid")
    };
    assert_eq!(iids(current.as_str().expect("an ID")).await, [json!(1)]);
    assert_eq!(iids(&replaced).await, [Value::Null; 0]);
}

async fn merge_requests_of_other_projects_are_not_listed(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "origin", Visibility::Public).await;
    let head = project.id("feature/x");
    let ada = server.create_user("ada").await;
    let fork = ada.client.post(&format!("/projects/{}/fork", project.id), json!({})).await.expect(201).json();
    let fork = fork["id"].as_i64().expect("an ID");
    server.finish_jobs().await;
    propose(&ada.client, fork, "feature/x", "main", json!({})).await;
    server.finish_jobs().await;
    let url = |id: i64| format!("/projects/{id}/repository/commits/{head}/merge_requests");
    assert_eq!(root.get(&url(project.id)).await.expect(200).json(), json!([]));
    assert_eq!(ada.client.get(&url(fork)).await.expect(200).pluck("project_id"), [json!(fork)]);
    let body =
        json!({"source_branch": "feature/x", "target_branch": "main", "target_project_id": project.id, "title": "t"});
    ada.client.post(&format!("/projects/{fork}/merge_requests"), body).await.expect(201);
    server.finish_jobs().await;
    assert_eq!(root.get(&url(project.id)).await.expect(200).pluck("source_project_id"), [json!(fork)]);
}

async fn hidden_merge_requests_and_unknown_commits_are_refused(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "refused", Visibility::Public).await;
    let guest = project.member("guest", AccessLevel::Guest).await;
    let reporter = project.member("reporter", AccessLevel::Reporter).await;
    let outsider = server.create_user("outsider").await;
    let url = project.url("/commits/main/merge_requests");
    for client in [&server.anonymous(), &outsider.client, &guest] {
        client.get(&url).await.expect(200);
    }
    let missing = root.get(&project.url("/commits/missing/merge_requests")).await.expect(404);
    assert_eq!(missing.message(), "404 Commit Not Found");
    root.get(&format!("{url}?state=unknown")).await.expect(400);
    server.with_token("nonsense").get(&url).await.expect(401);
    root.put(&format!("/projects/{}", project.id), json!({"merge_requests_access_level": "private"})).await.expect(200);
    for client in [&server.anonymous(), &outsider.client] {
        client.get(&url).await.expect(403);
    }
    reporter.get(&url).await.expect(200);
    root.put(&format!("/projects/{}", project.id), json!({"visibility": "private"})).await.expect(200);
    server.anonymous().get(&url).await.expect(404);
    outsider.client.get(&url).await.expect(404);
    guest.get(&url).await.expect(403);
    root.put(&format!("/projects/{}", project.id), json!({"merge_requests_access_level": "disabled"}))
        .await
        .expect(200);
    root.get(&url).await.expect(403);
}

on_every_database![
    commit_lists_its_merge_requests_newest_first,
    merge_and_squash_commits_are_found,
    replaced_commits_are_found_no_longer,
    merge_requests_of_other_projects_are_not_listed,
    hidden_merge_requests_and_unknown_commits_are_refused,
];
