//! New commits delete the approvals, in the transaction that records the push.

use domain::review::jobs::update_head_ref::UpdateHeadRef;
use domain::review::merge_requests::run_update_head_ref;
use serde_json::{Value, json};
use storage::entities::{AccessLevel, merge_requests};

use super::{Fixture, approved_by};
use crate::support::code::{NewCommit, file};
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

/// Changes the source branch without a record, as a push before the commit of the merge request does, and runs the job
/// that compares the branch with the merge request. Returns the merge request.
async fn change_unrecorded(fixture: &Fixture<'_>, change: impl FnOnce()) -> Value {
    change();
    let db = fixture.server.backend.database.read();
    let found = merge_requests::by_iid(fixture.project.id, 1).one(db).await.expect("a query");
    let job = UpdateHeadRef { merge_request_id: found.expect("a merge request").id };
    run_update_head_ref(fixture.server.backend.clone(), job).await.expect("the job");
    fixture.root.get(&fixture.url("/merge_requests/1")).await.expect(200).json()
}

async fn push_that_was_not_recorded_has_the_effects_of_a_push(server: TestServer) {
    let fixture = Fixture::new(&server, "unrecorded").await;
    server.finish_jobs().await;
    let ann = fixture.member("ann", AccessLevel::Developer).await;
    let required = json!({"only_allow_merge_if_pipeline_succeeds": true});
    fixture.root.put(&fixture.url(""), required).await.expect(200);
    fixture.approve(&ann.client).await.expect(201);
    let waits = json!({"merge_when_pipeline_succeeds": true});
    fixture.root.put(&fixture.url("/merge_requests/1/merge"), waits).await.expect(200);
    let changed = change_unrecorded(&fixture, || {
        let changes = file("more.txt", "1\n");
        fixture.project.import(&NewCommit { branch: "feature/x", changes, ..NewCommit::default() });
    })
    .await;
    assert_eq!(
        (&changed["state"], &changed["sha"], &changed["merge_when_pipeline_succeeds"]),
        (&json!("opened"), &json!(fixture.project.id("feature/x")), &json!(false))
    );
    assert_eq!(approved_by(&fixture.approvals().await), [""; 0]);
    let notes = fixture.notes().await;
    for text in [
        "added 1 commit",
        "canceled the automatic merge because new commits were added",
        "removed all approvals because new commits were added",
    ] {
        assert!(notes.iter().any(|note| note.as_str().is_some_and(|note| note.starts_with(text))), "{text}: {notes:?}");
    }
    let versions = fixture.root.get(&fixture.url("/merge_requests/1/versions")).await.expect(200);
    assert_eq!(versions.pluck("head_commit_sha")[0], changed["sha"]);
    // The job changes nothing without other commits.
    let again = change_unrecorded(&fixture, || ()).await;
    assert_eq!((&again["sha"], fixture.notes().await), (&changed["sha"], notes));
    let closed = change_unrecorded(&fixture, || drop(fixture.project.git(&["branch", "-D", "feature/x"]))).await;
    assert_eq!(closed["state"], "closed");
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
    push_that_was_not_recorded_has_the_effects_of_a_push,
    bots_of_the_project_reset_approvals,
];
