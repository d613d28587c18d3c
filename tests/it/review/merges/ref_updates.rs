//! Effects of ref updates on merge requests.

use serde_json::{Value, json};
use storage::entities::Visibility;

use super::Fixture;
use crate::support::code::{NewCommit, Project, file};
use crate::support::git::{Work, address};
use crate::support::server::ROOT_TOKEN;
use crate::support::{TestServer, on_every_database};

/// Clones a project as the administrator.
async fn copy(server: &TestServer, path: &str) -> (Work, Work) {
    let work = Work::empty();
    let url = address(&server.base, "root", ROOT_TOKEN, path);
    work.git(&["clone", "--quiet", &url, "c"]).await;
    let copy = work.below("c");
    (work, copy)
}

async fn push_to_source_branch_adds_commits(server: TestServer) {
    let fixture = Fixture::new(&server, "longer").await;
    let (_work, copy) = copy(&server, "root/longer").await;
    copy.git(&["checkout", "--quiet", "feature/x"]).await;
    copy.commit("one", "1").await;
    let tip = copy.commit("two", "2").await;
    copy.git(&["push", "--quiet", "origin", "feature/x"]).await;
    let read = fixture.read(1).await;
    assert_eq!((&read["sha"], &read["merge_status"]), (&json!(tip), &json!("can_be_merged")));
    assert_eq!(read["changes_count"], "3");
    let one = copy.git(&["rev-parse", "--short=8", "HEAD~1"]).await;
    let note = format!("added 2 commits\n\n* {one} - one\n* {} - two", &tip[..8]);
    assert_eq!(fixture.notes(1).await, [note]);
    server.finish_jobs().await;
    copy.git(&["fetch", "--quiet", "origin", "refs/merge-requests/1/head"]).await;
    assert_eq!(copy.git(&["rev-parse", "FETCH_HEAD"]).await, tip);
    copy.commit("three", "3").await;
    let rejected = copy.run(&["push", "origin", "HEAD:refs/merge-requests/1/head"]).await;
    assert!(!rejected.status.success());
}

async fn force_push_to_source_branch_updates_head_and_diff_refs(server: TestServer) {
    let fixture = Fixture::new(&server, "rewritten").await;
    let (_work, copy) = copy(&server, "root/rewritten").await;
    copy.git(&["checkout", "--quiet", "-b", "feature/x", "origin/main"]).await;
    let tip = copy.commit("other", "1").await;
    copy.git(&["push", "--quiet", "--force", "origin", "feature/x"]).await;
    let read = fixture.read(1).await;
    assert_eq!((&read["sha"], &read["changes_count"]), (&json!(tip), &json!("1")));
    server.finish_jobs().await;
    assert_eq!(
        fixture.read(1).await["diff_refs"],
        json!({
            "base_sha": fixture.project.id("main"), "head_sha": tip, "start_sha": fixture.project.id("main"),
        })
    );
    fixture.merge(1, json!({"sha": tip})).await.expect(200);
}

async fn delete_of_source_branch_closes_merge_request(server: TestServer) {
    let fixture = Fixture::new(&server, "orphan").await;
    let branch = fixture.project.url("/branches/feature%2Fx");
    fixture.root.delete(&branch).await.expect(204);
    let read = fixture.read(1).await;
    assert_eq!((&read["state"], &read["closed_by"]["username"]), (&json!("closed"), &json!("root")));
    assert_eq!(fixture.notes(1).await, ["closed"]);
    // Its commits remain, so that it can be restored.
    let commits = fixture.root.get(&fixture.url("/merge_requests/1/commits")).await.expect(200);
    assert_eq!(commits.pluck("title"), ["Change feature/x"]);
}

async fn push_of_local_merge_marks_merge_request_as_merged(server: TestServer) {
    let fixture = Fixture::new(&server, "byhand").await;
    let (_work, copy) = copy(&server, "root/byhand").await;
    copy.git(&["merge", "--quiet", "--no-edit", "origin/feature/x"]).await;
    copy.git(&["push", "--quiet", "origin", "main"]).await;
    let read = fixture.read(1).await;
    assert_eq!((&read["state"], &read["merged_by"]["username"]), (&json!("merged"), &json!("root")));
    assert_eq!((&read["merge_commit_sha"], &read["merged_at"].is_string()), (&Value::Null, &true));
    assert_eq!(fixture.notes(1).await, ["merged"]);
}

async fn push_of_many_commits_marks_merge_request_as_merged(server: TestServer) {
    let fixture = Fixture::new(&server, "many").await;
    let other = fixture.propose("merged", json!({})).await;
    let mut stream = String::new();
    for number in 0..10_100 {
        let parents = match number {
            0 => "from refs/heads/main^0\nmerge refs/heads/feature/x^0\n",
            _ => "",
        };
        let time = 1_600_001_000 + number;
        stream.push_str(&format!(
            "commit refs/heads/long\ncommitter A <a@example.com> {time} +0000\ndata 1\nx\n{parents}\n"
        ));
    }
    fixture.project.fast_import(stream.as_bytes());
    let (_work, copy) = copy(&server, "root/many").await;
    copy.git(&["push", "--quiet", "origin", "origin/long:refs/heads/main"]).await;
    assert_eq!(fixture.read(1).await["state"], "merged");
    // The target branch contained this head before.
    assert_eq!(fixture.read(other).await["state"], "opened");
}

async fn push_to_target_branch_resets_merge_status(server: TestServer) {
    let fixture = Fixture::new(&server, "others").await;
    assert_eq!(fixture.read(1).await["merge_status"], "can_be_merged");
    let body = json!({"branch": "main", "content": "x", "commit_message": "Other"});
    fixture.root.post(&fixture.project.url("/files/other"), body).await.expect(201);
    let listed = fixture.root.get(&fixture.url("/merge_requests")).await.expect(200).json();
    assert_eq!((&listed[0]["state"], &listed[0]["merge_status"]), (&json!("opened"), &json!("unchecked")));
    assert_eq!(fixture.read(1).await["merge_status"], "can_be_merged");
    let listed = fixture.root.get(&fixture.url("/merge_requests")).await.expect(200).json();
    assert_eq!(listed[0]["merge_status"], "can_be_merged");
}

async fn merge_request_from_fork_is_merged_with_its_commits(server: TestServer) {
    let project = Project::with_commits(&server, "origin", Visibility::Public).await;
    let ann = server.create_user("ann").await;
    let fork = ann.client.post(&format!("/projects/{}/fork", project.id), json!({})).await.expect(201).json();
    server.finish_jobs().await;
    let (fork, id) = (fork["id"].as_i64().expect("an id"), project.id);
    let body = json!({
        "branch": "topic", "start_branch": "main", "commit_message": "Topic",
        "actions": [{"action": "create", "file_path": "topic.txt", "content": "1\n"}],
    });
    let created = ann.client.post(&format!("/projects/{fork}/repository/commits"), body).await.expect(201).json();
    let body = json!({"source_branch": "topic", "target_branch": "main", "target_project_id": id, "title": "Topic"});
    let proposed = ann.client.post(&format!("/projects/{fork}/merge_requests"), body).await.expect(201).json();
    assert_eq!((&proposed["project_id"], &proposed["source_project_id"]), (&json!(id), &json!(fork)));
    assert_eq!(
        (&proposed["sha"], project.id("refs/merge-requests/1/head")),
        (&created["id"], created["id"].as_str().expect("an id").to_owned())
    );
    let body = json!({"branch": "topic", "content": "2\n", "commit_message": "More"});
    ann.client.put(&format!("/projects/{fork}/repository/files/topic.txt"), body).await.expect(200);
    let read = server.root().get(&format!("/projects/{id}/merge_requests/1")).await.expect(200).json();
    assert_eq!(read["merge_status"], "can_be_merged");
    let body = json!({"should_remove_source_branch": true});
    let merged = server.root().put(&format!("/projects/{id}/merge_requests/1/merge"), body).await.expect(200).json();
    assert_eq!((&merged["state"], &merged["sha"]), (&json!("merged"), &read["sha"]));
    assert_eq!(project.git(&["show", "main:topic.txt"]), "2");
    server.finish_jobs().await;
    // The administrator who merged can delete the branch in the fork of another user.
    ann.client.get(&format!("/projects/{fork}/repository/branches/topic")).await.expect(404);
    project.fsck();
}

async fn merge_request_of_deleted_fork_can_be_merged(server: TestServer) {
    let project = Project::with_commits(&server, "origin", Visibility::Public).await;
    let ann = server.create_user("ann").await;
    let fork = ann.client.post(&format!("/projects/{}/fork", project.id), json!({})).await.expect(201).json();
    server.finish_jobs().await;
    let (fork, id) = (fork["id"].as_i64().expect("an id"), project.id);
    let body = json!({
        "branch": "topic", "start_branch": "main", "commit_message": "Topic",
        "actions": [{"action": "create", "file_path": "topic.txt", "content": "1\n"}],
    });
    ann.client.post(&format!("/projects/{fork}/repository/commits"), body).await.expect(201);
    let body = json!({"source_branch": "topic", "target_branch": "main", "target_project_id": id, "title": "Topic"});
    ann.client.post(&format!("/projects/{fork}/merge_requests"), body).await.expect(201);
    ann.client.delete(&format!("/projects/{fork}")).await.expect(202);
    server.finish_jobs().await;
    let url = format!("/projects/{id}/merge_requests/1");
    let read = server.root().get(&url).await.expect(200).json();
    assert_eq!((&read["source_project_id"], &read["state"]), (&Value::Null, &json!("opened")));
    server.root().put(&format!("{url}/rebase"), json!({})).await.expect(403);
    server.root().put(&format!("{url}/merge"), json!({})).await.expect(200);
    assert_eq!(project.git(&["show", "main:topic.txt"]), "1");
}

async fn branch_can_be_source_and_target_of_merge_requests(server: TestServer) {
    let fixture = Fixture::new(&server, "chain").await;
    fixture.project.import(&NewCommit {
        branch: "upon",
        from: Some("feature/x"),
        time: 1_600_000_500,
        changes: file("upon.txt", "u\n"),
        ..NewCommit::default()
    });
    let upon = fixture.propose("upon", json!({"target_branch": "feature/x"})).await;
    fixture.merge(upon, json!({})).await.expect(200);
    let read = fixture.read(1).await;
    assert_eq!((&read["sha"], &read["state"]), (&json!(fixture.project.id("feature/x")), &json!("opened")));
    fixture.merge(1, json!({})).await.expect(200);
    assert_eq!(fixture.project.git(&["show", "main:upon.txt"]), "u");
}

on_every_database![
    push_to_source_branch_adds_commits,
    force_push_to_source_branch_updates_head_and_diff_refs,
    delete_of_source_branch_closes_merge_request,
    push_of_local_merge_marks_merge_request_as_merged,
    push_of_many_commits_marks_merge_request_as_merged,
    push_to_target_branch_resets_merge_status,
    merge_request_from_fork_is_merged_with_its_commits,
    merge_request_of_deleted_fork_can_be_merged,
    branch_can_be_source_and_target_of_merge_requests,
];
