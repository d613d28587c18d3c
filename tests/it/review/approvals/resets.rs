//! New commits delete the approvals, in the transaction that records the push.

use serde_json::json;
use storage::entities::AccessLevel;

use super::{Fixture, approved_by};
use crate::support::git::{Work, address};
use crate::support::server::ROOT_TOKEN;
use crate::support::{TestServer, on_every_database, spaces};

async fn push_deletes_approvals_at_once(server: TestServer) {
    let fixture = Fixture::new(&server, "reset").await;
    let ann = fixture.member("ann", AccessLevel::Developer).await;
    fixture.set(json!({"approvals_before_merge": 1})).await;
    fixture.approve(&ann.client).await.expect(201);
    // No job has to run.
    fixture.push("more.txt").await;
    let approvals = fixture.approvals().await;
    assert_eq!((approved_by(&approvals), &approvals["approved"]), (vec![], &json!(false)));
    fixture.merge().await.expect(405);
    let notes = fixture.notes().await;
    assert_eq!(notes.last(), Some(&json!("removed all approvals because new commits were added")));
    // A push without approvals writes no such note.
    let count = notes.len();
    fixture.push("most.txt").await;
    assert_eq!(fixture.notes().await.len(), count + 1);
    // A push of Git.
    fixture.approve(&ann.client).await.expect(201);
    let work = Work::empty();
    let url = address(&server.base, "root", ROOT_TOKEN, "root/reset");
    work.git(&["clone", "--quiet", "--branch", "feature/x", &url, "c"]).await;
    let copy = work.below("c");
    copy.commit("pushed.txt", "p").await;
    copy.git(&["push", "--quiet", "origin", "feature/x"]).await;
    assert_eq!(approved_by(&fixture.approvals().await), [""; 0]);
    // A rebase creates new commits, too.
    fixture.approve(&ann.client).await.expect(201);
    fixture.root.put(&fixture.url("/merge_requests/1/rebase"), json!({})).await.expect(202);
    assert_eq!(approved_by(&fixture.approvals().await), [""; 0]);
}

async fn approvals_remain_if_the_project_retains_them(server: TestServer) {
    let fixture = Fixture::new(&server, "retain").await;
    let ann = fixture.member("ann", AccessLevel::Developer).await;
    fixture.set(json!({"approvals_before_merge": 1, "reset_approvals_on_push": false})).await;
    fixture.approve(&ann.client).await.expect(201);
    fixture.push("more.txt").await;
    assert_eq!(approved_by(&fixture.approvals().await), ["ann"]);
    fixture.merge().await.expect(200);
}

async fn only_new_commits_delete_approvals(server: TestServer) {
    let fixture = Fixture::new(&server, "others").await;
    let ann = fixture.member("ann", AccessLevel::Developer).await;
    fixture.approve(&ann.client).await.expect(201);
    let body = json!({"branch": "main", "content": "m", "commit_message": "Change the target"});
    fixture.root.post(&fixture.project.url("/files/main.txt"), body).await.expect(201);
    let one = fixture.url("/merge_requests/1");
    for change in [json!({"title": "New"}), json!({"state_event": "close"}), json!({"state_event": "reopen"})] {
        fixture.root.put(&one, change).await.expect(200);
    }
    assert_eq!(approved_by(&fixture.approvals().await), ["ann"]);
    // Commits that were pushed while it was closed.
    fixture.root.put(&one, json!({"state_event": "close"})).await.expect(200);
    fixture.push("more.txt").await;
    assert_eq!(approved_by(&fixture.approvals().await), ["ann"]);
    fixture.root.put(&one, json!({"state_event": "reopen"})).await.expect(200);
    assert_eq!(approved_by(&fixture.approvals().await), [""; 0]);
    // Another target branch changes the commits.
    fixture.approve(&ann.client).await.expect(201);
    fixture.root.put(&one, json!({"target_branch": "merged"})).await.expect(200);
    assert_eq!(approved_by(&fixture.approvals().await), [""; 0]);
    assert_eq!(fixture.notes().await.last(), Some(&json!("removed all approvals because the commits changed")));
}

async fn bots_of_the_project_reset_approvals(server: TestServer) {
    let fixture = Fixture::new(&server, "bots").await;
    let ann = fixture.member("ann", AccessLevel::Developer).await;
    let bot = async |project: i64| {
        let body = json!({"name": "bot", "scopes": ["api"]});
        let created = fixture.root.post(&format!("/projects/{project}/access_tokens"), body).await.expect(201).json();
        (server.with_token(created["token"].as_str().expect("a token")), created["user_id"].clone())
    };
    let (own, bot_id) = bot(fixture.project.id).await;
    let elsewhere = spaces::project(&fixture.root, "elsewhere", json!({})).await;
    let (foreign, _) = bot(elsewhere).await;
    let url = fixture.url("/merge_requests/1/reset_approvals");
    fixture.approve(&ann.client).await.expect(201);
    for (client, status) in [
        (&server.anonymous(), 401),
        (&fixture.root, 401),
        (&ann.client, 401),
        (&foreign, 403),
        (&fixture.member("rob", AccessLevel::Reporter).await.client, 403),
    ] {
        client.put(&url, json!({})).await.expect(status);
    }
    assert_eq!(approved_by(&fixture.approvals().await), ["ann"]);
    assert_eq!(own.put(&url, json!({})).await.expect(202).json(), json!({"message": "202 Accepted"}));
    assert_eq!(approved_by(&fixture.approvals().await), [""; 0]);
    let notes = ["approved this merge request", "removed all approvals"];
    assert_eq!(fixture.notes().await, notes);
    // Nothing changes without approvals.
    own.put(&url, json!({})).await.expect(202);
    assert_eq!(fixture.notes().await, notes);
    own.put(&fixture.url("/merge_requests/9/reset_approvals"), json!({})).await.expect(404);
    let member = fixture.url(&format!("/members/{bot_id}"));
    fixture.approve(&ann.client).await.expect(201);
    fixture.merge().await.expect(200);
    own.put(&url, json!({})).await.expect(401);
    assert_eq!(approved_by(&fixture.approvals().await), ["ann"]);
    fixture.root.put(&member, json!({"access_level": 20})).await.expect(200);
    own.put(&url, json!({})).await.expect(403);
}

on_every_database![
    push_deletes_approvals_at_once,
    approvals_remain_if_the_project_retains_them,
    only_new_commits_delete_approvals,
    bots_of_the_project_reset_approvals,
];
