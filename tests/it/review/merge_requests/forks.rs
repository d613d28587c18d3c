//! Merge requests from forks.

use serde_json::json;
use storage::entities::{AccessLevel, Visibility};

use super::{public_project, titles};
use crate::support::code::Project;
use crate::support::{TestServer, on_every_database};

async fn create_merge_request_from_fork_targets_the_source_project(server: TestServer) {
    let root = server.root();
    let source = public_project(&server, "origin").await;
    let (ada, eve) = (server.create_user("ada").await, server.create_user("eve").await);
    let fork = ada.client.post(&format!("/projects/{}/fork", source.id), json!({})).await.expect(201).json();
    let fork = fork["id"].as_i64().expect("an id");
    server.finish_jobs().await;
    let path = format!("/projects/{fork}/merge_requests");
    let body = json!({
        "source_branch": "feature/x", "target_branch": "main", "target_project_id": source.id, "title": "t",
        "labels": "mine", "assignee_ids": [ada.id],
    });
    let created = ada.client.post(&path, body.clone()).await.expect(201).json();
    assert_eq!((&created["project_id"], &created["source_project_id"]), (&json!(source.id), &json!(fork)));
    assert_eq!((&created["target_project_id"], &created["iid"]), (&json!(source.id), &json!(1)));
    assert_eq!(
        (&created["labels"], &created["assignees"]),
        (&json!([]), &json!([])),
        "labels and assignees are reserved for members of the target"
    );
    assert_eq!((&created["first_contribution"], &created["user"]["can_merge"]), (&json!(true), &json!(false)));
    assert_eq!(created["references"]["relative"], "root/origin!1");
    assert_eq!(created["diff_refs"]["base_sha"], source.id("main~1"));
    // Only one merge request can be open for the same branches of the same projects.
    // One within the fork is different.
    ada.client.post(&path, body.clone()).await.expect(409);
    let within = json!({"source_branch": "feature/x", "target_branch": "main", "title": "t"});
    assert_eq!(ada.client.post(&path, within).await.expect(201).json()["iid"], 1);
    let mut same = body.clone();
    same["source_branch"] = json!("main");
    assert_eq!(ada.client.post(&path, same).await.expect(201).json()["iid"], 2);
    // Commits that exist only in the fork are included.
    let commit = json!({
        "branch": "own", "start_branch": "main", "commit_message": "Add it",
        "actions": [{"action": "create", "file_path": "own.txt", "content": "x"}],
    });
    ada.client.post(&format!("/projects/{fork}/repository/commits"), commit).await.expect(201);
    let mut own = body.clone();
    own["source_branch"] = json!("own");
    own["title"] = json!("own");
    let own = ada.client.post(&path, own).await.expect(201).json();
    assert_eq!((&own["changes_count"], &own["diff_refs"]["base_sha"]), (&json!("1"), &json!(source.id("main"))));
    // The author can edit it without a role in the target; other users cannot.
    let one = format!("/projects/{}/merge_requests/1", source.id);
    assert_eq!(ada.client.put(&one, json!({"title": "new"})).await.expect(200).json()["title"], "new");
    eve.client.put(&one, json!({"title": "x"})).await.expect(403);
    let listed = format!("/projects/{}/merge_requests?source_project_id={fork}&sort=asc", source.id);
    assert_eq!(titles(&eve.client, &listed).await, ["new", "t", "own"]);
    // A user without a role in the fork cannot create a merge request from it.
    eve.client.post(&path, body).await.expect(403);
    // A merge request remains after its fork is deleted.
    root.delete(&format!("/projects/{fork}")).await.expect(202);
    server.finish_jobs().await;
    root.put(&one, json!({"state_event": "close"})).await.expect(200);
    root.put(&one, json!({"state_event": "reopen"})).await.expect(400);
}

async fn create_merge_request_requires_fork_and_visible_target(server: TestServer) {
    let root = server.root();
    let source = public_project(&server, "origin").await;
    let unrelated = Project::with_commits(&server, "stranger", Visibility::Public).await;
    let hidden = Project::with_commits(&server, "hidden", Visibility::Private).await;
    let developer = source.member("developer", AccessLevel::Developer).await;
    let path = format!("/projects/{}/merge_requests", source.id);
    let body = |target: i64| json!({"source_branch": "feature/x", "target_branch": "main", "target_project_id": target, "title": "t"});
    let rejected = developer.post(&path, body(unrelated.id)).await.expect(400).json();
    assert_eq!(rejected["message"], json!({"validate_fork": ["Source project is not a fork of the target project"]}));
    for target in [hidden.id, 99999] {
        let answer = developer.post(&path, body(target)).await.expect(404);
        assert_eq!(answer.message(), "404 Project Not Found");
    }
    unrelated.archive().await;
    developer.post(&path, body(unrelated.id)).await.expect(403);
    root.post(&path, body(source.id)).await.expect(201);
}

on_every_database![
    create_merge_request_from_fork_targets_the_source_project,
    create_merge_request_requires_fork_and_visible_target,
];
