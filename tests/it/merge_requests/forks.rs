//! Merge requests from forks.

use serde_json::json;
use storage::entities::{AccessLevel, Visibility};

use super::{public_project, titles};
use crate::support::code::Project;
use crate::support::{TestServer, on_every_database};

async fn a_branch_of_a_fork_is_proposed_to_where_it_comes_from(server: TestServer) {
    let root = server.root();
    let source = public_project(&server, "origin").await;
    let (ada, eve) = (server.person("ada").await, server.person("eve").await);
    let fork = ada.client.post(&format!("/projects/{}/fork", source.id), json!({})).await.expect(201).json();
    let fork = fork["id"].as_i64().expect("an id");
    server.finish_jobs().await;
    let path = format!("/projects/{fork}/merge_requests");
    let wish = json!({
        "source_branch": "feature/x", "target_branch": "main", "target_project_id": source.id, "title": "t",
        "labels": "mine", "assignee_ids": [ada.id],
    });
    let made = ada.client.post(&path, wish.clone()).await.expect(201).json();
    assert_eq!((&made["project_id"], &made["source_project_id"]), (&json!(source.id), &json!(fork)));
    assert_eq!((&made["target_project_id"], &made["iid"]), (&json!(source.id), &json!(1)));
    assert_eq!((&made["labels"], &made["assignees"]), (&json!([]), &json!([])), "that is for members of the target");
    assert_eq!((&made["first_contribution"], &made["user"]["can_merge"]), (&json!(true), &json!(false)));
    assert_eq!(made["references"]["relative"], "root/origin!1");
    assert_eq!(made["diff_refs"]["base_sha"], source.id("main~1"));
    // The same branches of the same projects, once; and the same branch within the fork.
    ada.client.post(&path, wish.clone()).await.expect(409);
    let within = json!({"source_branch": "feature/x", "target_branch": "main", "title": "t"});
    assert_eq!(ada.client.post(&path, within).await.expect(201).json()["iid"], 1);
    let mut same = wish.clone();
    same["source_branch"] = json!("main");
    assert_eq!(ada.client.post(&path, same).await.expect(201).json()["iid"], 2);
    // What only the fork has is told, too.
    let commit = json!({
        "branch": "own", "start_branch": "main", "commit_message": "Add it",
        "actions": [{"action": "create", "file_path": "own.txt", "content": "x"}],
    });
    ada.client.post(&format!("/projects/{fork}/repository/commits"), commit).await.expect(201);
    let mut own = wish.clone();
    own["source_branch"] = json!("own");
    own["title"] = json!("own");
    let own = ada.client.post(&path, own).await.expect(201).json();
    assert_eq!((&own["changes_count"], &own["diff_refs"]["base_sha"]), (&json!("1"), &json!(source.id("main"))));
    // Its author edits it without a role in the target; others do not.
    let one = format!("/projects/{}/merge_requests/1", source.id);
    assert_eq!(ada.client.put(&one, json!({"title": "new"})).await.expect(200).json()["title"], "new");
    eve.client.put(&one, json!({"title": "x"})).await.expect(403);
    let listed = format!("/projects/{}/merge_requests?source_project_id={fork}&sort=asc", source.id);
    assert_eq!(titles(&eve.client, &listed).await, ["new", "t", "own"]);
    // Who has no role in the fork proposes nothing from it.
    eve.client.post(&path, wish).await.expect(403);
    // What comes from a fork outlives it.
    root.delete(&format!("/projects/{fork}")).await.expect(202);
    server.finish_jobs().await;
    root.put(&one, json!({"state_event": "close"})).await.expect(200);
    root.put(&one, json!({"state_event": "reopen"})).await.expect(400);
}

async fn only_forks_are_merged_and_only_where_the_caller_reads(server: TestServer) {
    let root = server.root();
    let source = public_project(&server, "origin").await;
    let stranger = Project::filled(&server, "stranger", Visibility::Public).await;
    let hidden = Project::filled(&server, "hidden", Visibility::Private).await;
    let developer = source.member("developer", AccessLevel::Developer).await;
    let path = format!("/projects/{}/merge_requests", source.id);
    let wish = |target: i64| json!({"source_branch": "feature/x", "target_branch": "main", "target_project_id": target, "title": "t"});
    let refused = developer.post(&path, wish(stranger.id)).await.expect(400).json();
    assert_eq!(refused["message"], json!({"validate_fork": ["Source project is not a fork of the target project"]}));
    for gone in [hidden.id, 99999] {
        let answer = developer.post(&path, wish(gone)).await.expect(404);
        assert_eq!(answer.message(), "404 Project Not Found");
    }
    stranger.archive().await;
    developer.post(&path, wish(stranger.id)).await.expect(403);
    root.post(&path, wish(source.id)).await.expect(201);
}

on_every_database![
    a_branch_of_a_fork_is_proposed_to_where_it_comes_from,
    only_forks_are_merged_and_only_where_the_caller_reads,
];
